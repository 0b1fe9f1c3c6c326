"""Tests of a project are run, and come back as data."""

from __future__ import annotations

import asyncio
import os

import pytest

from codeact_kernel.environment import kernel_environment
from codeact_kernel.errors import ToolError
from codeact_kernel.tools import Caller, Catalogue, ToolServer, as_tools
from codeact_kernel.tools.builtin.suites import SuiteTools
from codeact_kernel.tools.builtin.workspace import Workspace

PYTEST = """
import os, time, pytest

@pytest.fixture
def broken():
    raise RuntimeError("no fixture")

@pytest.fixture
def breaks_later():
    yield
    raise RuntimeError("no end")

def test_good(): pass
def test_bad():
    assert 1 == 2
def test_error(broken): pass
def test_late(breaks_later): pass
@pytest.mark.skip(reason="not now")
def test_skipped(): pass
@pytest.mark.xfail(reason="known", strict=True)
def test_known(): assert 0
"""
UNITTEST = """
import unittest

class TestA(unittest.TestCase):
    def test_good(self): pass
    def test_bad(self): self.assertEqual(1, 2)
    def test_error(self): raise KeyError("x")
    def test_parts(self):
        for n in range(3):
            with self.subTest(n=n):
                self.assertEqual(n, 1)
    @unittest.skip("not now")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_known(self): self.fail()
    @unittest.expectedFailure
    def test_unexpected(self): pass

class TestB(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise RuntimeError("no class")
    def test_never(self): pass
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    env = kernel_environment(os.environ, extra={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    return SuiteTools(Workspace(tmp_path), env).run_tests


def outcomes(result):
    return {test["name"].rpartition(":")[2].rpartition(".")[2]: test["outcome"] for test in result["tests"]}


async def test_a_project_of_pytest(run, tmp_path):
    (tmp_path / "test_a.py").write_text(PYTEST)
    (tmp_path / "test_b.py").write_text("import nosuch")
    result = await run(options=["--continue-on-collection-errors"])
    assert outcomes(result).items() >= {
        "test_good": "passed", "test_bad": "failed", "test_error": "error", "test_late": "error",
        "test_skipped": "skipped", "test_known": "skipped",
    }.items()  # fmt: skip
    assert [result[outcome] for outcome in ("passed", "failed", "error", "skipped")] == [1, 1, 3, 2]
    messages = {test["name"]: test["message"] for test in result["tests"]}
    assert "assert 1 == 2" in messages["test_a.py::test_bad"]
    assert "not now" in messages["test_a.py::test_skipped"]
    assert "nosuch" in messages["test_b.py"]
    assert not result["timed_out"]


async def test_some_tests_of_pytest_by_name(run, tmp_path):
    (tmp_path / "test_a.py").write_text(PYTEST)
    result = await run("test_a.py::test_good")
    assert [test["name"] for test in result["tests"]] == ["test_a.py::test_good"]
    assert (result["passed"], result["code"]) == (1, 0)
    assert "1 passed" in result["output"]
    assert (await run(options=["-k", "good or bad"]))["passed"] == 1


async def test_a_project_of_unittest(run, tmp_path):
    (tmp_path / "test_a.py").write_text(UNITTEST)
    (tmp_path / "test_b.py").write_text("import nosuch")
    result = await run(runner="unittest")
    assert outcomes(result) == {
        "test_good": "passed", "test_bad": "failed", "test_error": "error", "test_parts": "failed",
        "test_skipped": "skipped", "test_known": "passed", "test_unexpected": "failed",
        "TestB)": "error", "test_b": "error",
    }  # fmt: skip
    assert result["code"] == 1
    assert (await run(["test_a.TestA.test_good"], "unittest"))["passed"] == 1


async def test_what_had_ended_before_the_timeout_is_told(run, tmp_path):
    slow = "import time, unittest\nclass TestA(unittest.TestCase):\n    def test_a(self): pass\n"
    (tmp_path / "test_a.py").write_text(slow + "    def test_b(self): time.sleep(600)\n")
    result = await run(runner="unittest", timeout=2)
    assert (outcomes(result), result["timed_out"]) == ({"test_a": "passed"}, True)


@pytest.mark.parametrize("runner", ["pytest", "unittest"])
async def test_with_echo_each_test_is_shown_as_it_ends(run, tmp_path, runner):
    source = """
import os, time, unittest

class TestA(unittest.TestCase):
    def test_a(self): pass
    def test_b(self):
        while not os.path.exists("seen"): time.sleep(0.01)
        self.fail()
"""
    (tmp_path / "test_a.py").write_text(source)
    server, said = ToolServer(Catalogue(as_tools([run])), {}, lambda event: None), []
    call = server.call("run_tests", (), {"runner": runner, "echo": True}, Caller("b1", note=said.append))
    task = asyncio.create_task(call)
    while not said:
        await asyncio.sleep(0.005)
    assert len(said) == 1
    assert said[0].startswith("passed test_a")
    assert said[0].endswith("test_a")
    (tmp_path / "seen").touch()
    result = await task
    assert [test["outcome"] for test in result["tests"]] == ["passed", "failed"]
    assert said[1].startswith("failed test_a")


async def test_what_tests_write_elsewhere_is_no_result(run, tmp_path):
    source = """
import os, unittest

class TestA(unittest.TestCase):
    def test_a(self):
        for fd in range(3, 50):
            try: os.write(fd, b'nonsense\\n[1]\\n{"name": 1}\\n')
            except OSError: pass
"""
    (tmp_path / "test_a.py").write_text(source)
    result = await run(runner="unittest")
    assert outcomes(result) == {"test_a": "passed"}


async def test_of_very_many_failures_the_last_come_without_their_messages(run, tmp_path):
    source = """
import unittest

class TestA(unittest.TestCase):
    pass

for n in range(6000):
    setattr(TestA, f"test_{n:04}", lambda self: self.fail("x" * 4000))
"""
    (tmp_path / "test_a.py").write_text(source)
    result = await run(runner="unittest")
    assert result["failed"] == len(result["tests"]) == 6000
    assert result["tests"][0]["message"].endswith("x" * 3000 + "\n")
    assert result["tests"][-1]["message"] == "[left out: the messages of these tests are too long]"


async def test_what_tests_leave_running_does_not_hold_the_result(run, tmp_path):
    source = "import os, time, unittest\nclass TestA(unittest.TestCase):\n    def test_a(self):\n"
    (tmp_path / "test_a.py").write_text(source + "        if os.fork() == 0: os.setsid(); time.sleep(600)\n")
    async with asyncio.timeout(60):
        assert outcomes(await run(runner="unittest")) == {"test_a": "passed"}


async def test_the_project_s_modules_are_found_and_ours_are_not(run, tmp_path):
    (tmp_path / "mine.py").write_text("x = 1")
    (tmp_path / "test_a.py").write_text(
        "import mine, pytest\ndef test_a():\n    with pytest.raises(ImportError):\n        import searching"
    )
    assert (await run("test_a.py"))["passed"] == 1


async def test_the_project_s_own_python_is_used(run, tmp_path):
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 97\n")
    python.chmod(0o755)
    with pytest.raises(ToolError, match=r"pytest is not installed for \.venv/bin/python"):
        await run()


async def test_another_runner_is_an_error(run):
    with pytest.raises(ToolError, match="'nose' is no runner; it is 'pytest' or 'unittest'"):
        await run(runner="nose")

"""Tests of the workspace's project, as a tool.

Comes in: which tests, from a block. Goes out: how each ended, as data.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Self

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.builtin import reporting
from codeact_kernel.tools.builtin.echo import Echo
from codeact_kernel.tools.builtin.processes import Ended, run_process
from codeact_kernel.tools.builtin.workspace import Workspace
from codeact_kernel.tools.serve import notify

TIMEOUT = 600.0
"""Seconds that tests may take where nothing else is said. Ours: a suite that takes longer is run in parts."""
TAIL = 4000
"""Characters of the runner's own output that come back: its end, which sums up."""
REPORTS = 16 * 2**20
"""Bytes of results after which tests come without their messages. Ours: thousands of failed tests."""
MOST = 4 * REPORTS
"""Bytes of results that are read. Ours: hundreds of thousands of tests; more is no suite, but a test that floods."""


class SuiteTools:
    """Tools that run tests.

    Args:
        workspace: The workspace.
        env: What the tests see of the environment.
    """

    def __init__(self, workspace: Workspace, env: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._env = env

    async def run_tests(
        self,
        tests: str | list[str] | None = None,
        runner: str = "pytest",
        options: list[str] | None = None,
        cwd: str = ".",
        timeout: float = TIMEOUT,
        echo: bool = False,
    ) -> dict[str, Any]:
        """Run the project's tests: a dict of passed, failed, error, skipped (counts), tests, output, code, timed_out.

        Each of `tests` is a dict of name, outcome ("passed", "failed", "error", "skipped"), seconds and message; of
        tests that did not end before the timeout there is none. `output` is the end of what the runner printed. They
        run in the Python of the project's .venv where there is one, else in that of this program.

        Args:
            tests: What to run; for pytest "tests/test_a.py::test_b", for unittest "tests.test_a.TestB". None for all.
            runner: "pytest" or "unittest".
            options: More options of the runner, such as ["-k", "name"].
            cwd: The project's folder in the workspace.
            timeout: Seconds.
            echo: Show each test's outcome and name in the block's output as it ends, besides.

        Raises:
            ToolError: If there is no such runner or folder, or pytest is not installed there.
        """
        if runner not in ("pytest", "unittest"):
            raise ToolError(f"{runner!r} is no runner; it is 'pytest' or 'unittest'")
        names = [tests] if isinstance(tests, str) else list(tests or ())
        arguments = [
            *(options or ()),
            *(names or (["discover"] if runner == "unittest" and not options else [])),
        ]
        if not all(isinstance(argument, str) for argument in arguments):
            raise ToolError("tests and options are texts")
        with (
            self._workspace.open(cwd, "folder") as folder,
            Echo(notify) as shown,
            _Reports(lambda test: shown.lines([f"{test['outcome']} {test['name']}"] * echo)) as reports,
        ):
            python = _python(folder)
            argv = [python, reporting.__file__, str(reports.end), runner, *arguments]
            ended = await run_process(argv, folder, self._env, timeout, pass_fds=[reports.end], walls=True)
            reports.read()
        if ended.code == reporting.MISSING:
            raise ToolError(f"pytest is not installed for {python}; install it there, or runner='unittest'")
        return _told(reports.tests, ended)


class _Reports:
    """How tests ended, as they are written to a pipe.

    Args:
        tell: Told of each test.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self.tests: list[dict[str, Any]] = []
        self._tell = tell
        self._size = 0
        self._begun = b""

    def __enter__(self) -> Self:
        self._pipe, self.end = os.pipe()
        os.set_blocking(self._pipe, False)
        asyncio.get_running_loop().add_reader(self._pipe, self._read)
        return self

    def __exit__(self, *exception: object) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe)
        os.close(self._pipe)
        os.close(self.end)

    def read(self) -> None:
        """Read what is there by now."""
        with contextlib.suppress(BlockingIOError):
            while self._read():
                pass

    def _read(self) -> int:
        data = os.read(self._pipe, 2**16)
        self._size += len(data)
        if self._size <= MOST:
            *lines, self._begun = (self._begun + data).split(b"\n")
            for line in lines:
                # What else a test may have written there is none.
                with contextlib.suppress(ValueError):
                    self._add(json.loads(line))
        return len(data)

    def _add(self, test: Any) -> None:
        if isinstance(test, dict) and test.keys() >= {"name", "outcome"}:
            if self._size > REPORTS and test.get("message"):
                test["message"] = "[left out: the messages of these tests are too long]"
            self.tests.append(test)
            self._tell(test)


def _python(folder: int) -> str:
    """The interpreter of a project, for a process that runs in its folder."""
    try:
        os.stat(".venv/bin/python", dir_fd=folder)
    except OSError:
        return sys.executable
    return ".venv/bin/python"


def _told(tests: list[dict[str, Any]], ended: Ended) -> dict[str, Any]:
    counts = Counter(test["outcome"] for test in tests)
    output = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    return {
        **{outcome: counts[outcome] for outcome in ("passed", "failed", "error", "skipped")},
        "tests": tests,
        "output": output[-TAIL:],
        "code": ended.code,
        "seconds": round(ended.seconds, 3),
        "timed_out": ended.timed_out,
    }

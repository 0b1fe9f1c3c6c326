"""Commands run in the workspace, and end with all that they started."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
from pathlib import Path

import psutil
import pytest

from codeact_kernel.errors import ToolError
from codeact_kernel.tools import Caller, Catalogue, ToolServer, as_tools
from codeact_kernel.tools.builtin import processes
from codeact_kernel.tools.builtin.commands import CommandTools
from codeact_kernel.tools.builtin.workspace import Workspace

ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def run(tmp_path):
    return CommandTools(Workspace(tmp_path), ENV).run_command


@pytest.fixture
def shown(run):
    """What a block would show, and a call as from that block."""
    server, said = ToolServer(Catalogue(as_tools([run])), {}, lambda event: None), []

    async def call(*args, **kwargs):
        return await server.call("run_command", args, kwargs, Caller("b1", note=said.append))

    return said, call


def living(mark):
    """The processes that have a word among their arguments."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if mark in process.cmdline():
                found.append(process.pid)
    return found


async def test_a_command_gives_its_code_and_both_streams(run):
    result = await run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert 0 <= result.pop("seconds") < 30
    assert result == {"code": 3, "stdout": "out\n", "stderr": "err\n", "timed_out": False}


async def test_a_text_is_split_into_words_and_no_shell_sees_it(run, tmp_path):
    assert (await run("echo '$HOME *' ; pwd"))["stdout"] == "$HOME * ; pwd\n"
    assert (await run("echo a | tr a b; pwd", shell=True))["stdout"] == f"b\n{tmp_path.resolve()}\n"


async def test_it_reads_what_it_is_given_and_else_nothing(run):
    assert (await run("cat", stdin="é" * 200_000))["stdout"] == "é" * 200_000
    assert (await run("cat"))["stdout"] == ""


async def test_it_runs_in_a_folder_of_the_workspace(run, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "out").symlink_to("/")
    assert (await run("pwd", cwd="sub"))["stdout"].strip() == str(tmp_path.resolve() / "sub")
    for cwd in ("..", "out", "/"):
        with pytest.raises(ToolError, match="leads out of the workspace"):
            await run("pwd", cwd=cwd)


async def test_it_sees_only_the_environment_that_it_is_given(run, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "x")
    seen = (await run("env"))["stdout"]
    assert "PATH=/usr/bin:/bin\n" in seen
    assert "SECRET_KEY" not in seen


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("nosuch-program", {}, "there is no program 'nosuch-program'"),
        ("./nosuch", {}, "there is no program"),
        ("echo 'x", {}, "cannot be split into words"),
        ("", {}, "not empty"),
        ([1], {}, "list of texts"),
        (["echo"], {"shell": True}, "one text"),
        ("echo", {"timeout": 0}, "above zero"),
        (["/etc/passwd"], {}, "cannot be run"),
    ],
)
async def test_what_cannot_be_run_says_why(run, command, options, message):
    with pytest.raises(ToolError, match=message):
        await run(command, **options)


async def test_after_the_timeout_its_whole_tree_ends_and_what_it_printed_comes(run):
    mark = f"tree-of-a-timeout-{secrets.token_hex(8)}"
    script = (
        f"sleep 600 & setsid sh -c 'sleep 600; : {mark}' {mark} & (setsid sh -c 'sleep 601; :' {mark} &) ; "
        "echo ready; sleep 600"
    )
    result = await run(["sh", "-c", script, mark], timeout=0.5)
    assert (result["code"], result["stdout"], result["timed_out"]) == (-9, "ready\n", True)
    assert living(mark) == []


async def test_what_it_leaves_running_ends_with_it_and_does_not_hold_the_result(run):
    mark = f"left-behind-{secrets.token_hex(8)}"
    async with asyncio.timeout(20):
        result = await run(["sh", "-c", f"setsid sh -c 'sleep 600; :' {mark} & sleep 600 & echo done", mark])
    assert (result["code"], result["stdout"]) == (0, "done\n")
    assert living(mark) == []


async def test_a_cancel_ends_the_tree(run, tmp_path):
    mark = f"cancelled-tree-{secrets.token_hex(8)}"
    script = f"setsid sh -c 'sleep 600; :' {mark} & echo > started; sleep 600"
    task = asyncio.create_task(run(["sh", "-c", script, mark]))
    while not (tmp_path / "started").exists():
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living(mark) == []


async def test_a_long_output_keeps_both_ends_and_counts_the_rest(run):
    code = "import sys; sys.stdout.write('a' * 3_000_000 + 'z'); sys.stderr.write('e' * 3_000_000)"
    result = await run([sys.executable, "-S", "-c", code])
    head, note, tail = result["stdout"].split("\n")
    assert len(head) == len(tail) == processes.OUTPUT // 2
    assert note == f"[... {3_000_001 - processes.OUTPUT} bytes left out here]"
    assert tail.endswith("az")


async def test_output_of_exactly_the_limit_is_whole(run):
    code = f"print('a' * {processes.OUTPUT}, end='')"
    assert (await run([sys.executable, "-S", "-c", code]))["stdout"] == "a" * processes.OUTPUT


async def test_with_echo_its_lines_are_shown_while_it_runs(shown, tmp_path):
    said, call = shown
    script = "echo begun; echo wrong >&2; while [ ! -e seen ]; do sleep 0.01; done; printf last"
    task = asyncio.create_task(call(["sh", "-c", script], echo=True))
    while len(said) < 2:
        await asyncio.sleep(0.005)
    assert sorted(said) == ["begun", "wrong"]
    (tmp_path / "seen").touch()
    result = await task
    assert said[2:] == ["last"]
    assert (result["stdout"], result["stderr"]) == ("begun\nlast", "wrong\n")


async def test_without_echo_nothing_is_shown(shown):
    said, call = shown
    assert (await call("echo quiet"))["stdout"] == "quiet\n"
    assert said == []


async def test_of_a_flood_some_is_shown_and_the_rest_is_in_the_result(shown):
    said, call = shown
    result = await call("seq 100000", echo=True)
    lines = [line for text in said for line in text.split("\n")]
    assert lines[:3] == ["1", "2", "3"]
    assert len(lines) < 500
    left_out = sum(int(line.split()[1]) for line in lines if line.startswith("[..."))
    assert left_out + sum(line.isdigit() for line in lines) == 100_000
    assert result["stdout"].endswith("\n100000\n")


async def test_what_was_printed_before_the_timeout_is_shown(shown):
    said, call = shown
    assert (await call("printf halfway; sleep 60", shell=True, timeout=0.3, echo=True))["timed_out"]
    assert said == ["halfway"]


async def test_no_descriptor_stays_open(run):
    await run("true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    await run("true")
    with pytest.raises(ToolError):
        await run("nosuch-program")
    await run("sleep 60", timeout=0.05)
    assert len(list(Path("/proc/self/fd").iterdir())) == before

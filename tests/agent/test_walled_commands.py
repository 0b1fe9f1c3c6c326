"""Programs that tools start for blocks: they can do no more than the blocks."""

from __future__ import annotations

import os
import shutil
import socket
import sys

import pytest
from talk import block

from codeact_kernel import Agent
from codeact_kernel.events import GoalChecked
from codeact_kernel.testing import ScriptedModel
from codeact_kernel.tools import load_tools

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are for Linux"),
]
MODES = ["landlock", *(["bwrap"] if shutil.which("bwrap") else [])]


async def said(workspace, code, **wanted):
    """What a block prints that has the tool for commands."""
    model = ScriptedModel([block(code), "Done."])
    tools = load_tools("builtin:commands", workspace)
    async with Agent(model, workspace=workspace, run_dir=False, tools=tools, **wanted) as agent:
        await agent.run("Look.")
    return model.requests[1].messages[-1].content


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "outside").write_text("a secret of the host's")
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("mode", MODES)
async def test_a_command_reads_and_reaches_no_more_than_a_block(workspace, mode):
    code = f"""
print((await run_command(['cat', {str(workspace.parent / "outside")!r}]))['code'])
print((await run_command('echo made > made; id -u; pwd', shell=True))['stdout'])
print((await run_command('echo $HOME', shell=True))['stdout'])
"""
    text = await said(workspace, code, sandbox=mode)
    assert "a secret" not in text
    assert str(workspace.resolve()) in text
    assert (workspace / "made").read_text() == "made\n"
    assert (workspace / "made").stat().st_uid == workspace.stat().st_uid
    assert "own/home" in text
    if os.geteuid() == 0:
        assert "\n19" in text


async def test_where_landlock_leaves_sockets_open_a_command_makes_none(workspace):
    place = workspace / "named.sock"  # in a folder that it may read and write
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()
        place.chmod(0o777)
        program = "import socket; socket.socket(socket.AF_UNIX).connect('named.sock')"
        code = f"print(await run_command([{sys.executable!r}, '-c', {program!r}]))"
        text = await said(workspace, code, sandbox="landlock")
    assert "'code': 1" in text
    assert "PermissionError" in text


@pytest.mark.parametrize("mode", MODES)
async def test_a_command_that_takes_too_long_ends_with_all_it_has_started(workspace, mode):
    name = f"sleep-{os.getpid()}-{mode}"
    code = f"print((await run_command('setsid sh -c \"sleep 100 # {name}\" & sleep 100', shell=True, timeout=1)))"
    text = await said(workspace, code, sandbox=mode)
    assert "'timed_out': True" in text
    import psutil

    assert not [p for p in psutil.process_iter(["cmdline"]) if name in " ".join(p.info["cmdline"] or [])]


@pytest.mark.parametrize("mode", MODES)
async def test_a_program_that_is_not_there_is_said_so(workspace, mode):
    text = await said(workspace, "await run_command('no-such-program')", sandbox=mode)
    assert "there is no program 'no-such-program' here" in text


async def test_with_no_sandbox_a_command_runs_as_the_host(workspace):
    text = await said(workspace, "print((await run_command('id -u'))['stdout'])", sandbox="none")
    assert str(os.geteuid()) in text


@pytest.mark.parametrize("mode", MODES)
async def test_the_command_of_a_goal_reads_no_more_than_a_block(workspace, mode):
    events = []
    async with Agent(
        ScriptedModel(["I am done."]),
        workspace=workspace,
        run_dir=False,
        sandbox=mode,
        observers=[events.append],
    ) as agent:
        await agent.run("Look.", until="pwd; cat ../outside", max_turns=1)
    (checked,) = [event for event in events if isinstance(event, GoalChecked)]
    assert checked.code != 0
    assert str(workspace.resolve()) in checked.output
    assert "a secret" not in checked.output

"""A run's sandbox: one for all of its agents, told to people, to the model and to the records."""

from __future__ import annotations

import json
import os
import sys

import nbformat
import pytest
from talk import block, delegate, heard, play, when

from codeact_kernel import Agent
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import RunStarted
from codeact_kernel.testing import ScriptedModel

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are for Linux"),
]
WHO = "import os\nprint(os.getuid(), os.environ.get('HOME'), [os.access(p, os.W_OK) for p in ('.', '/', '/usr')])"


async def test_a_run_names_its_sandbox_in_event_record_journal_and_audit(tmp_path):
    started = []
    agent = Agent(
        ScriptedModel([block("print(1)"), "Done."]),
        workspace=tmp_path,
        observers=[lambda event: started.append(event) if isinstance(event, RunStarted) else None],
    )
    async with agent:
        run = await agent.run("Look.")
    (event,) = started
    assert event.sandbox in ("limits", "landlock", "bwrap")
    assert event.about_sandbox.startswith(f"sandbox: {event.sandbox}")
    folder = run.record.parent
    about = nbformat.read(run.record, as_version=4).metadata["codeact"]
    assert about["sandbox"] == event.sandbox
    for file in ("journal.jsonl", "audit.jsonl"):
        lines = map(json.loads, (folder / file).read_text().splitlines())
        (line,) = [line for line in lines if "RunStarted" in (line.get("type"), line.get("event"))]
        assert (line["sandbox"], line["about_sandbox"]) == (event.sandbox, event.about_sandbox)


async def test_the_model_is_told_what_its_code_cannot_do(tmp_path):
    async def prompt(**wanted):
        model = ScriptedModel(["Done."])
        async with Agent(model, workspace=tmp_path, run_dir=False, **wanted) as agent:
            await agent.run("Look.")
        return model.requests[0].messages[0].content

    assert "Your kernel runs in a sandbox" not in await prompt(sandbox="none")
    walled = await prompt(sandbox="landlock", allow_read=[tmp_path.parent])
    assert "only the working directory and the folder of the tempfile module can be written" in walled
    assert f"{tmp_path.parent.resolve()} can be read, and there is no network" in walled


async def test_sub_agents_are_behind_the_same_walls_as_their_parent(tmp_path):
    script = {
        "ROOT": when(
            delegate("SCOUT", name="scout"), ("agent_result", block(WHO, id="look")), ('id="look"', "Done.")
        ),
        "SCOUT": [block(WHO), "Looked."],
    }
    model, *_ = await play(tmp_path, script)
    for name in ("ROOT", "SCOUT"):
        said = heard(model, name)
        assert "[True, False, False]" in said
        if os.geteuid() == 0:
            assert "\n19" in said


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"sandbox": "jail"}, "'jail' is no sandbox"),
        ({"sandbox_min": "auto"}, "'auto' is no sandbox to ask for at least"),
        ({"allow_net": True, "allow_hosts": ["example.org"]}, "say one of them"),
        (
            {"sandbox": "landlock", "allow_hosts": ["example.org"]},
            "single hosts can be allowed in bwrap only",
        ),
        ({"allow_read": ["/nowhere/at/all"]}, "there is no /nowhere/at/all"),
    ],
)
async def test_what_cannot_be_had_is_an_error_before_anything_runs(tmp_path, wanted, why):
    with pytest.raises(ConfigError, match=why):
        async with Agent(ScriptedModel([]), workspace=tmp_path, **wanted):
            pytest.fail("it was entered")


async def test_a_host_with_a_sandbox_cannot_be_read_by_others_of_its_user(tmp_path):
    code = f"""
try:
    print(open('/proc/{os.getpid()}/environ').read())
except OSError as error:
    print(type(error).__name__)
"""
    model = ScriptedModel([block(code), "Done."])
    async with Agent(model, workspace=tmp_path, run_dir=False, sandbox="limits") as agent:
        await agent.run("Look.")
    said = model.requests[1].messages[-1].content
    assert "PermissionError" in said or "FileNotFoundError" in said

"""Runs that go on in another process: from what the disk held at the moment in which the first one died."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import suppress

import pytest
from talk import block, delegate, when

from codeact_kernel import Agent
from codeact_kernel.agent import open_past
from codeact_kernel.agent.past import UntrustedRecord
from codeact_kernel.errors import ConfigError, ModelUnreachable
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockStarted,
    Heartbeat,
    Observation,
    ReplyDelta,
    ToolCalled,
    TurnStarted,
)
from codeact_kernel.testing import Cast, ScriptedModel

pytestmark = pytest.mark.kernel


class Disk:
    """What the disk holds at the moment of an event: what a crash there leaves behind. An `Observer`."""

    def __init__(self, place, is_the_moment):
        self.run = place / "run"
        self.image = place / "image"
        self._is_the_moment = is_the_moment

    def __call__(self, event):
        if not self.image.exists() and self._is_the_moment(event):
            ignored = shutil.ignore_patterns("lock", ".*")
            shutil.copytree(self.run, self.image, ignore=ignored, copy_function=_copied)


def _copied(source, target):
    with suppress(FileNotFoundError):  # what is written beside and put in its place comes and goes
        shutil.copy2(source, target)


async def crashed(tmp_path, replies, moment, task="Do it.", **options):
    """Play a run to its end, and give what the disk held at a moment of it."""
    disk = Disk(tmp_path, moment)
    model = replies if isinstance(replies, Cast) else ScriptedModel([*replies, "done", "done"])
    observers = [disk, *options.pop("observers", ())]
    async with Agent(model, workspace=tmp_path, run_dir=disk.run, observers=observers, **options) as agent:
        await agent.run(task)
    assert disk.image.exists(), "the moment never came"
    return disk.image


async def resumed(image, replies, **options):
    """Go on with it; gives the run, and what the model was asked."""
    limits = {name: options.pop(name) for name in ("max_turns", "max_time") if name in options}
    model = replies if isinstance(replies, Cast) else ScriptedModel(replies)
    async with Agent.resume(image, model=model, **options) as agent:
        return await agent.go_on(**limits), model


def lines(image):
    return [json.loads(line) for line in (image / "journal.jsonl").read_text().splitlines()]


def said(model, call=0):
    return [message.content for message in model.requests[call].messages[1:]]


async def test_a_crash_before_the_first_reply_asks_the_same_again(tmp_path):
    image = await crashed(tmp_path, ["It is 4."], lambda e: isinstance(e, TurnStarted))
    run, model = await resumed(image, ["It is 4."])
    assert (run.answer, run.turns, run.task) == ("It is 4.", 1, "Do it.")
    assert said(model) == ["Do it."]


async def test_an_answer_that_nobody_has_taken_is_taken_without_a_question(tmp_path):
    replies = [block("x = 1"), "It is 4."]
    image = await crashed(
        tmp_path, replies, lambda e: isinstance(e, Appended) and getattr(e.entry, "turn", 0) == 2
    )
    run, model = await resumed(image, [])
    assert (run.answer, run.turns) == ("It is 4.", 2)
    assert model.requests == []


async def test_a_block_that_has_started_in_mid_reply_is_seen_and_not_run_again(tmp_path):
    first = block("open('mark', 'a').write('x')\nprint('here')\nimport time; time.sleep(0.5)", id="first")
    second = block("open('mark', 'a').write('y')", id="second")
    replies = [["I begin.\n" + first, "\nAnd now\n" + second[:20], 1.5, second[20:]], "done"]

    def started(event):
        return isinstance(event, ReplyDelta) and event.text == second[20:]

    image = await crashed(tmp_path, replies, started)
    (tmp_path / "mark").write_text("x")
    run, model = await resumed(image, ["done"])
    assert run.answer == "done"
    assert (tmp_path / "mark").read_text() == "x"
    asked = said(model)
    assert asked[:2] == ["Do it.", "I begin.\n" + first]
    assert '<run_code_result id="first"' in asked[2]
    assert "here" in asked[2]
    assert "second" not in asked[2]


async def test_a_block_that_ran_is_told_to_have_ended_with_its_host(tmp_path):
    slow = block("print('page 1', flush=True)\nimport time; time.sleep(1)", id="dl")
    image = await crashed(
        tmp_path, ["x = 1\n" + slow, "done"], lambda e: isinstance(e, BlockOutput) and "page" in e.output.text
    )
    run, model = await resumed(image, ["so"])
    assert run.answer == "so"
    told = said(model)[-1]
    assert 'status="died"' in told
    assert "page 1" in told
    assert "how far it came is unknown" in told
    assert "Nothing was run again" in told


async def test_a_result_that_had_landed_is_told_once(tmp_path):
    image = await crashed(
        tmp_path, [block("print(7)", id="a"), "done"], lambda e: isinstance(e, BlockFinished)
    )
    _, model = await resumed(image, ["done"])
    assert "\n".join(said(model)).count("<run_code_result") == 1
    image.rename(tmp_path / "gone")


async def test_the_names_that_are_gone_are_told_and_old_outputs_can_be_asked_for(tmp_path):
    replies = [block("alpha, beta = 1, 2\nprint('seven')", id="a"), block("gamma = 3", id="a"), "done"]
    image = await crashed(
        tmp_path, replies, lambda e: isinstance(e, Appended) and isinstance(e.entry, Observation)
    )
    ask = block("print(self.output('a')); print('alpha' in globals())", after="a", id="b")
    run, model = await resumed(image, [ask, block("1", id="a"), "so"])
    assert "These names are gone: alpha, beta." in said(model)[-1]
    told = said(model, 1)[-1]
    assert "seven\n" in told
    assert "False" in told
    assert [line["id"] for line in lines(image) if line["type"] == "BlockQueued"] == ["a", "b", "a#2"]
    assert run.turns == 4


async def test_a_call_that_was_under_way_is_unknown_and_never_made_again(tmp_path):
    calls = []

    async def append(text: str) -> None:
        """Append."""
        calls.append(text)
        await asyncio.sleep(0.2)

    replies = [block("await append('one')\nawait append('two')", id="w"), "done"]
    image = await crashed(
        tmp_path, replies, lambda e: isinstance(e, ToolCalled) and "two" in e.arguments, tools=[append]
    )
    before = len(calls)
    _, model = await resumed(image, ["so"], tools=[append])
    assert len(calls) == before
    told = said(model)[-1]
    assert told.count("unknown whether this call happened") == 1
    assert 'append(text="two")' in told


async def test_a_run_at_a_limit_goes_on_with_a_new_one_and_its_turns_count(tmp_path):
    async with Agent(
        ScriptedModel([block("x = 1"), block("y = 2")]), workspace=tmp_path, run_dir=tmp_path / "run"
    ) as agent:
        run = await agent.run("Do it.", max_turns=2)
    assert run.stop == "limit"
    async with Agent.resume(tmp_path / "run" / "run.ipynb", model=ScriptedModel([])) as agent:
        again = await agent.go_on()
    assert (again.stop, again.message.split(";")[0]) == ("limit", "2 turns are used up")
    run, _ = await resumed(tmp_path / "run", ["done"], max_turns=3)
    assert (run.stop, run.turns, run.id) == ("answered", 3, again.id)


async def test_what_a_checkpoint_holds_is_back_and_told_and_what_cannot_be_saved_is_not(tmp_path):
    code = block("rows = [3, 1, 2]\ndef total():\n    return sum(rows)\nlog = open('log', 'w')")
    async with Agent(ScriptedModel([code]), workspace=tmp_path, run_dir=tmp_path / "run") as agent:
        await agent.run("Do it.", max_turns=1)
    ask = block("rows.append(4)\nprint('total', total())")
    run, model = await resumed(tmp_path / "run", [ask, "so"], max_turns=3)
    told = said(model)[-1]
    assert "These names are back, as they were at" in told
    assert "rows" in told.partition("are back")[2].partition("are gone")[0]
    assert "log (" in told.partition("are gone")[2]
    assert "total 10" in said(model, 1)[-1]
    assert run.answer == "so"


async def test_a_failed_run_goes_on(tmp_path):
    with pytest.raises(ModelUnreachable):
        async with Agent(
            ScriptedModel([ModelUnreachable("down")]), workspace=tmp_path, run_dir=tmp_path / "run"
        ) as agent:
            await agent.run("Do it.")
    run, model = await resumed(tmp_path / "run", ["done"])
    assert run.answer == "done"
    assert said(model) == ["Do it."]


async def test_an_answered_run_is_not_gone_on_with_but_takes_a_further_task(tmp_path):
    async with Agent(
        ScriptedModel([block("alpha = 1"), "one"]), workspace=tmp_path, run_dir=tmp_path / "run"
    ) as agent:
        first = await agent.run("First.")
    model = ScriptedModel(["two"])
    async with Agent.resume(tmp_path / "run", model=model) as agent:
        with pytest.raises(ConfigError, match="further task"):
            await agent.go_on()
        run = await agent.run("Second.")
    assert (run.answer, run.record) == ("two", first.record)
    assert said(model)[-2] == "Second."
    assert "alpha" in said(model)[-1]
    cells = ["".join(cell["source"]) for cell in json.loads(first.record.read_text())["cells"]]
    assert [source for source in cells if source.startswith("# ")] == ["# First.", "# Second."]


async def test_a_note_that_was_not_told_is_told(tmp_path):
    def steer(event):
        if isinstance(event, BlockStarted):
            steering.agent.steer("skip page 7")

    steering = type("", (), {})()
    model = ScriptedModel([block("import time; time.sleep(0.3)"), "I wait.", "done"])
    disk = Disk(tmp_path, lambda e: type(e).__name__ == "NoteReceived")
    async with Agent(model, workspace=tmp_path, run_dir=disk.run, observers=[disk, steer]) as agent:
        steering.agent = agent
        await agent.run("Do it.")
    _, again = await resumed(disk.image, ["done"])
    assert '<note from="user">skip page 7</note>' in said(again)[-1].replace("\n", "")


async def test_a_sub_agent_that_was_at_work_is_told_to_have_ended(tmp_path):
    model = Cast(
        {
            "ROOT": when(delegate("SCOUT: look.", name="scout", heartbeat="0.3s"), ("agent_result", "fine")),
            "SCOUT": ["I will look.\n" + block("print(1)\nimport time; time.sleep(3)"), "found"],
        }
    )
    scout = tmp_path / "run" / "agents" / "scout" / "journal.jsonl"

    def moment(event):
        return isinstance(event, Heartbeat) and '"BlockStarted"' in scout.read_text()

    image = await crashed(tmp_path, model, moment, task="ROOT")
    _, again = await resumed(image, ["so"])
    told = said(again)[-1]
    assert 'name="scout" status="died"' in told
    assert "the sub-agent with it, in turn 1" in told
    assert told.count("I will look.") == 2
    assert "agents/scout/run.ipynb" in told


async def test_two_processes_cannot_go_on_with_one_run(tmp_path):
    image = await crashed(tmp_path, ["It is 4."], lambda e: isinstance(e, TurnStarted))
    one = Agent.resume(image, model=ScriptedModel(["a"]))
    with pytest.raises(ConfigError, match="is being worked on by process"):
        Agent.resume(image, model=ScriptedModel(["a"]))
    async with one:
        await one.go_on()
    async with Agent.resume(image, model=ScriptedModel(["a"])):
        pass
    open_past(image).close()


async def test_a_run_that_goes_on_here_cannot_be_resumed_elsewhere(tmp_path):
    refused = []

    def try_it(event):
        if isinstance(event, TurnStarted):
            with pytest.raises(ConfigError, match="is being worked on by process"):
                Agent.resume(tmp_path / "run")
            refused.append(event)

    async with Agent(
        ScriptedModel(["a"]), workspace=tmp_path, run_dir=tmp_path / "run", observers=[try_it]
    ) as agent:
        await agent.run("Do it.")
    assert refused


async def test_a_record_that_somebody_has_changed_is_refused_unless_trusted(tmp_path):
    image = await crashed(tmp_path, ["It is 4."], lambda e: isinstance(e, TurnStarted))
    journal = image / "journal.jsonl"
    journal.write_text(journal.read_text().replace("Do it.", "Do that."))
    with pytest.raises(UntrustedRecord, match="--trust-record"):
        Agent.resume(image)
    run, _ = await resumed(image, ["It is 4."], trust_record=True)
    assert run.task == "Do that."


def is_summary(cell):
    return cell["metadata"]["codeact"]["kind"] == "summary"


async def test_it_goes_on_from_its_notebook_when_the_journal_is_gone(tmp_path):
    code = block("print('seven')\n1/0", id="a")
    async with Agent(
        ScriptedModel(["I look.\n" + code, block("y = 2")]), workspace=tmp_path, run_dir=tmp_path / "run"
    ) as agent:
        await agent.run("Do it.", max_turns=2)
    (tmp_path / "run" / "journal.jsonl").unlink()
    with pytest.raises(ConfigError, match="--from-notebook"):
        Agent.resume(tmp_path / "run")
    before = json.loads((tmp_path / "run" / "run.ipynb").read_text())
    run, model = await resumed(tmp_path / "run", ["done"], from_notebook=True, max_turns=3)
    assert (run.answer, run.turns) == ("done", 3)
    assert said(model)[:2] == ["Do it.", "I look.\n" + code]
    assert "seven" in said(model)[2]
    after = json.loads((tmp_path / "run" / "run.ipynb").read_text())
    told_before, told_after = (
        [told for told in book["cells"] if not is_summary(told)] for book in (before, after)
    )
    assert [c["source"] for c in told_after[:3]] == [c["source"] for c in told_before[:3]]
    assert told_after[2]["outputs"] == told_before[2]["outputs"]
    open_past(tmp_path / "run").close()


async def test_from_the_notebook_a_journal_that_is_spoilt_gives_way_to_a_whole_one(tmp_path):
    async with Agent(
        ScriptedModel([block("x = 1"), block("y = 2")]), workspace=tmp_path, run_dir=tmp_path / "run"
    ) as agent:
        await agent.run("Do it.", max_turns=2)
    journal = tmp_path / "run" / "journal.jsonl"
    spoilt = journal.read_text().replace("Do it.", "Do that.")
    journal.write_text(spoilt)
    run, _ = await resumed(tmp_path / "run", ["done"], from_notebook=True, max_turns=3)
    assert (run.task, run.turns) == ("Do it.", 3)
    assert (tmp_path / "run" / "journal.old.jsonl").read_text() == spoilt
    again = open_past(tmp_path / "run")
    again.close()
    assert (len(again.transcript.runs), again.transcript.turn_count) == (1, 3)


async def test_the_audit_goes_on_in_the_same_file(tmp_path):
    from codeact_kernel.policy import verify
    from codeact_kernel.signing import host_signer

    image = await crashed(tmp_path, [block("x = 1"), "done"], lambda e: isinstance(e, BlockFinished))
    await resumed(image, ["done"])
    assert verify(image / "audit.jsonl", host_signer()).is_right
    names = [json.loads(line)["event"] for line in (image / "audit.jsonl").read_text().splitlines()]
    assert names.index("AuditContinued") < names.index("RunResumed") < names.index("RunEnded")


async def test_a_weaker_sandbox_is_refused_unless_it_is_named(tmp_path):
    image = await crashed(tmp_path, ["It is 4."], lambda e: isinstance(e, TurnStarted), sandbox="limits")
    told = lines(image)[0]
    assert told["type"] == "RunStarted"
    assert told["options"]["sandbox"] == "limits"
    run, _ = await resumed(image, ["It is 4."], sandbox="none")
    assert run.answer == "It is 4."


async def test_the_model_is_told_what_a_person_has_changed_in_the_notebook(tmp_path):
    async with Agent(
        ScriptedModel([block("x = 1", id="a"), block("y = 2", id="b")]),
        workspace=tmp_path,
        run_dir=tmp_path / "run",
    ) as agent:
        await agent.run("Do it.", max_turns=2)
    path = tmp_path / "run" / "run.ipynb"
    notebook = json.loads(path.read_text())
    cell = next(cell for cell in notebook["cells"] if cell["metadata"]["codeact"].get("id") == "b")
    cell["source"] = ["y = 3"]
    notebook["cells"] = [c for c in notebook["cells"] if c["metadata"]["codeact"].get("id") != "a"]
    path.write_text(json.dumps(notebook))
    with pytest.raises(ConfigError, match="somebody has changed it"):
        Agent.resume(tmp_path / "run", from_notebook=True)
    run, model = await resumed(tmp_path / "run", ["done"], from_notebook=True, trust_record=True, max_turns=3)
    assert run.answer == "done"
    assert '<note from="user">\nWhile this run stood still' in said(model)[-1]
    assert "Block b reads now:\ny = 3" in said(model)[-1]
    assert "Block a of turn 1 was taken out; what it did stays done:\nx = 1" in said(model)[-1]
    cells = json.loads(path.read_text())["cells"]
    assert any("Block b reads now" in "".join(cell["source"]) for cell in cells)

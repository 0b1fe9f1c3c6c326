"""A replay beside its record: the real loop with recorded replies, and where the conversation leaves them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from records import told

from codeact_kernel import Agent
from codeact_kernel.agent import Options, RecordedRun, Settings
from codeact_kernel.agent.models import Models
from codeact_kernel.agent.recorded.comparing import Compared
from codeact_kernel.agent.recorded.following import Following
from codeact_kernel.agent.recorded.following import told as told_of
from codeact_kernel.blocks import BlockResult, CodeBlock, Outcome
from codeact_kernel.errors import ConfigError, Diverged
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockQueued,
    Notice,
    Observation,
    Reply,
    Report,
    RunStarted,
    Task,
    TurnStarted,
)
from codeact_kernel.masking import Mask
from codeact_kernel.messages import ModelRequest
from codeact_kernel.record import notebook_text, to_notebook, without_outputs
from codeact_kernel.testing import ScriptedModel

NOTHING = ModelRequest(())


def result(name, body, turn):
    return Appended(turn, Observation((Report("run_code_result", body, name),)))


def conversation(*bodies, task="Do it.", place="/theirs/work"):
    """A run whose model has read these, each from a block of the reply before."""
    events = [RunStarted("r", task, "m", "s", 1.0, options={"workspace": place}), Appended(0, Task(task))]
    for turn, body in enumerate(bodies, 1):
        name, block = f"b{turn}", CodeBlock("x", f"b{turn}")
        events += [
            TurnStarted(turn, 10.0 * turn),
            BlockQueued(turn, name, block, 10.0 * turn),
            Appended(turn, Reply(turn, "x")),
            BlockFinished(
                BlockResult(name, block, Outcome("ok"), (), 10.0 * turn, 10.0 * turn, 10.0 * turn + 1)
            ),
            result(name, body, turn),
        ]
    last = len(bodies) + 1
    return [*events, TurnStarted(last, 10.0 * last), Appended(last, Reply(last, "Done."))]


async def followed(before, after, goes_on=False):
    """Where a replay of one run is found to part, when another one's events come."""
    found = []
    following = Following(
        RecordedRun(Path("run.ipynb"), told(before)), None, "/mine", lambda at: found.append(at) or goes_on
    )
    for event in after:
        if isinstance(event, Appended) and isinstance(event.entry, Reply):
            await following.before_model_call(NOTHING)
        following(event)
    return following, [(at.turn, at.before, at.after) for at in found]


async def test_a_replay_that_reads_the_same_but_for_what_is_volatile_does_not_part():
    before = conversation("12 rows in 1.5 s", "ok")
    assert (await followed(before, conversation("12 rows in 2.5 s", "ok")))[1] == []


async def test_where_blocks_run_does_not_count_and_what_lies_there_does():
    before = conversation("/theirs/work/a.csv /theirs/work", "/theirs/workers/b")
    there = "/theirs/workers/b"
    assert (await followed(before, conversation("/mine/a.csv /mine", there)))[1] == []
    assert [at[0] for at in (await followed(before, conversation("/mine/b.csv /mine", there)))[1]] == [2]
    assert [at[0] for at in (await followed(before, conversation("/mine/a.csv /mine", "/mineers/b")))[1]] == [
        3
    ]


async def test_a_record_without_outputs_is_followed_by_its_tasks_and_notes_alone(tmp_path):
    path = tmp_path / "bare.ipynb"
    path.write_text(notebook_text(without_outputs(to_notebook(told(conversation("12 rows", "ok"))))))
    bare = RecordedRun.load(path)
    assert "12 rows" not in path.read_text()
    found = []
    following = Following(bare, None, "/mine", lambda at: found.append(at) or True)
    for event in conversation("13 rows", "ok"):
        if isinstance(event, Appended) and isinstance(event.entry, Reply):
            await following.before_model_call(NOTHING)
        following(event)
    assert found == []
    assert not following.is_over


async def test_it_parts_once_and_before_the_reply_to_what_is_read_otherwise():
    before = conversation("12 rows", "ok", "3")
    following, found = await followed(before, conversation("13 rows", "ok", "4"))
    assert found == [(2, "run_code_result b1\n12 rows", "run_code_result b1\n13 rows")]
    assert following.is_over
    following, found = await followed(before, conversation("13 rows", "ok", "4"), goes_on=True)
    assert len(found) == 1
    assert not following.is_over
    _, found = await followed(before, conversation("12 rows", task="Do that."))
    assert found == [(1, "Do it.", "Do that.")]


async def test_a_result_that_is_read_later_than_it_was_is_compared_when_it_is_there():
    def late(body):
        events = conversation("12 rows", "ok")
        (at,) = [n for n, event in enumerate(events) if event == result("b1", "12 rows", 1)]
        events.pop(at)
        (at,) = [n for n, event in enumerate(events) if event == result("b2", "ok", 2)]
        return [*events[:at], result("b1", body, 2), *events[at:]]

    before = conversation("12 rows", "ok")
    assert (await followed(before, late("12 rows")))[1] == []
    assert [at[0] for at in (await followed(before, late("13 rows")))[1]] == [2]


async def test_a_rest_of_a_reply_that_is_asked_for_is_no_further_reply():
    events = conversation("12 rows")
    recorded = RecordedRun(Path("run.ipynb"), told(events))
    following = Following(recorded, None, "/mine", lambda at: pytest.fail(str(at)))
    for event in events:
        if isinstance(event, Appended) and isinstance(event.entry, Reply):
            await following.before_model_call(NOTHING)
            await following.before_model_call(NOTHING)
        following(event)


async def test_an_answer_ends_a_run_of_a_chat_and_not_the_replay():
    first, second = conversation("1"), conversation("2")
    events = [*first, second[0], Appended(2, Task("Do it."))]
    for event in second[2:]:
        match event:
            case TurnStarted():
                events.append(TurnStarted(event.turn + 2, event.at + 20))
            case Appended(entry=Reply()):
                events.append(Appended(event.turn + 2, Reply(event.turn + 2, event.entry.text)))
            case _:
                events.append(event)
    recorded = RecordedRun(Path("run.ipynb"), told(events))
    following = Following(recorded, None, "/mine", lambda at: True)
    for event in first:
        if isinstance(event, TurnStarted):
            following(event)
            await following.before_model_call(NOTHING)
    following(first[-1])
    assert following.on_stop("Done.") is None
    assert not following.is_over


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("a\n12 rows", "a\n13 rows", '"12 rows", and would read "13 rows" now'),
        ("a\nb", "a", '"b", and would read nothing more now'),
        ("a", "", '"a", and would read nothing more now'),
        ("x" * 100, "a", f'"{"x" * 60}…", and would read "a" now'),
    ],
)
def test_where_it_parts_is_told_in_a_line(before, after, line):
    assert told_of(Compared(1, "", "differs", before, after)) == line


LOOK = "<run_code>\nfrom pathlib import Path\nprint(Path('n.txt').read_text(), 'rows')\n</run_code>"
MORE = "<run_code>\nprint('more')\n</run_code>"


@pytest.mark.kernel
async def test_a_replay_ends_where_the_conversation_parts_or_a_model_goes_on_from_there(tmp_path):
    (tmp_path / "n.txt").write_text("12")
    folder = tmp_path / "first"
    async with Agent(ScriptedModel([LOOK, MORE, "12 rows."]), workspace=tmp_path, run_dir=folder) as agent:
        await agent.run("Count.")
    replay = f"replay:{folder / 'run.ipynb'}"

    (tmp_path / "n.txt").write_text("13")
    async with Agent(replay, workspace=tmp_path, run_dir=tmp_path / "second") as agent:
        with pytest.raises(
            Diverged, match=r'turn 2 of .* had read "12 rows", and would read "13 rows" now'
        ) as e:
            await agent.run("Count.")
    assert (e.value.turn, e.value.now) == (2, "run_code_result b1\n13 rows")
    assert "would read" in (tmp_path / "second" / "run.ipynb").read_text()

    live, seen = ScriptedModel(["13 rows."]), []
    async with Agent(
        replay, then=live, workspace=tmp_path, run_dir=tmp_path / "third", observers=[seen.append]
    ) as agent:
        run = await agent.run("Count.")
    assert (run.answer, run.turns) == ("13 rows.", 2)
    assert [event.about for event in seen if isinstance(event, Notice)] == ["replay"]
    assert "13 rows" in live.requests[0].messages[-1].content
    about = json.loads((tmp_path / "third" / "run.ipynb").read_text())["metadata"]["codeact"]
    assert about["model"] == live.name

    seen.clear()
    async with Agent(
        ScriptedModel(["13 or 12."]),
        fork=(folder, 3),
        workspace=tmp_path,
        run_dir=False,
        observers=[seen.append],
    ) as agent:
        assert (await agent.run("Count.")).answer == "13 or 12."
    (notice,) = [event.text for event in seen if isinstance(event, Notice)]
    assert notice.endswith("now: what was said up to turn 3 is said all the same")


def models(folder, **how):
    """The models of an agent that replays a run with a sub-agent called scout."""
    for place in (folder, folder / "agents" / "scout"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "run.ipynb").write_text(notebook_text(to_notebook(told(conversation("1")))))
    options = Options(**{"model": f"replay:{folder}"} | how)
    return Models(options, Settings(), print, Mask({}), lambda: pytest.fail("nobody is asked"))


def test_sub_agents_say_again_what_they_said_and_go_on_as_their_parent_does(tmp_path):
    live = ScriptedModel(["x"])
    scout = f"replay:{tmp_path / 'agents' / 'scout'}"
    for how, where, then in (
        ({}, "stop", None),
        ({"then": "replay"}, "as recorded", "replay"),
        ({"model": live, "fork": (tmp_path, 2)}, "told", "replay"),
    ):
        made = models(tmp_path, **how)
        assert (made.replay.where_it_parts, made.for_agent(None, "scout"), made.then) == (where, scout, then)
    made = models(tmp_path, then=live)
    assert (made.replay.where_it_parts, made.model.name) == ("live", live.name)
    assert (made.for_agent(None, "scout"), made.then.name) == (scout, live.name)
    made.go_live()
    assert made.for_agent(None, "scout").name == live.name


async def test_what_goes_on_after_a_replay_goes_with_a_replay_alone(tmp_path):
    with pytest.raises(ConfigError, match="goes with a replay"):
        async with Agent(ScriptedModel(["x"]), then="replay", workspace=tmp_path, run_dir=False):
            pass

"""What was said before can be had from code, before and after compactions."""

from __future__ import annotations

import pytest
from talk import block

from codeact_kernel import Agent
from codeact_kernel.agent.history import History
from codeact_kernel.events import (
    Appended,
    Knowledge,
    NoteReceived,
    Observation,
    Reply,
    Report,
    RunStarted,
    Task,
    TurnStarted,
)
from codeact_kernel.testing import ScriptedModel
from codeact_kernel.transcript import Transcript


def transcript(turns):
    kept = Transcript()
    kept.apply(RunStarted("r", "the whole task", "m", "", 0.0))
    kept.apply(Appended(0, Task("the task")))
    for n in range(1, turns + 1):
        kept.apply(TurnStarted(n, 0.0))
        kept.apply(Appended(n, Reply(n, f"reply {n}\nand more")))
        kept.apply(NoteReceived("user", f"note {n}"))
        kept.apply(Appended(n, Observation((Report("note", f"note {n}"),))))
    return kept


def no_file():
    raise AssertionError("it is short")


async def test_the_history_is_one_text_in_which_each_turn_has_its_line():
    history = History(transcript(3), no_file)
    text = (await history.page())["text"]
    lines = text.split("\n")
    assert [(number, lines[line]) for number, line in await history.turns()] == [
        (n, f"--- turn {n} ---") for n in (1, 2, 3)
    ]
    assert text.startswith("The task:\nthe task\n")
    assert "You wrote:\nreply 2\nand more\n\nYou read:\n[note] note 2\n" in text


async def test_what_the_record_takes_out_of_the_transcript_stays_in_it():
    whole, kept = transcript(40), transcript(40)
    history = History(kept, no_file)
    kept.apply(Appended(40, Knowledge("known", "")))
    whole.apply(Appended(40, Knowledge("known", "")))
    assert kept.take_settled(5) is not None
    assert len(kept.entries) == 1
    assert (await history.page()) == (await History(whole, no_file).page())
    assert await history.notes() == [f"note {n}" for n in range(1, 41)]


async def test_it_grows_with_the_transcript_and_keeps_what_a_compaction_replaced():
    kept = transcript(1)
    history = History(kept, no_file)
    before = (await history.page())["text"]
    kept.apply(Appended(1, Knowledge("what I know", "what is alive")))
    kept.apply(Appended(2, Reply(2, "after")))
    text = (await history.page())["text"]
    assert text.startswith(before)
    assert "what I know" in text
    assert [number for number, _ in await history.turns()] == [1, 2]


async def test_task_and_notes_are_whole():
    history = History(transcript(2), no_file)
    assert await history.task() == "the whole task"
    assert await history.notes() == ["note 1", "note 2"]
    assert history.handle_of("note 2") == "self.history.notes[1]"
    assert history.handle_of("of the host") is None


@pytest.mark.kernel
async def test_a_block_finds_what_was_said_before_a_compaction(tmp_path):
    script = [
        "A first thought about zebras.\n" + block("print('page 7 has [brackets'); x = 1", id="a"),
        block("self.compact_knowledge('x is 1')", id="c"),
        block(
            "print(self.history.search('zebra|page 7 has'))\n"
            "print(self.history.search('has [brackets'))\n"
            "print(len(self.history.search('.')) , len(self.history.search('.', most=3)))\n"
            "print(self.history.turn(1).split('\\n')[:2], self.history.task, self.history.notes)\n"
            "try:\n    self.history.turn(99)\nexcept ValueError as e:\n    print(e)",
            id="look",
        ),
        "done",
    ]
    model = ScriptedModel(script)
    async with Agent(model, workspace=tmp_path) as agent:
        run = await agent.run("ROOT")
    assert run.answer == "done"
    read = model.requests[-1].messages
    assert "zebras" not in read[1].content
    seen = read[-1].content
    assert "(1, 'A first thought about zebras.')" in seen
    assert "page 7 has [brackets')" in seen
    assert "20 3" in seen
    assert "'--- turn 1 ---', 'You wrote:'] ROOT []" in seen
    assert "there is no turn 99; the turns so far: 1 to 3" in seen

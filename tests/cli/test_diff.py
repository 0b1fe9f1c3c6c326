"""`codeact diff`: two runs side by side."""

from __future__ import annotations

from codeact_kernel.blocks import BlockResult, CodeBlock, Outcome, Prose, StreamOutput
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    Reply,
    RunEnded,
    RunStarted,
    Task,
    TurnStarted,
)
from codeact_kernel.messages import Usage
from codeact_kernel.record import write_journal
from codeact_kernel.runfiles import Folder

EVIL = "\x1b]0;owned\x07\x1b[2Jevil"


def kept(folder, *turns, answer="Done.", model="m"):
    """A run's folder; each turn is what is said and what its block prints, or None for no block."""
    events = [RunStarted("r", f"Count. {EVIL}", model, "s", 1.0), Appended(0, Task("Count."))]
    for number, (text, printed) in enumerate(turns, 1):
        events.append(TurnStarted(number, float(number)))
        parts = [Prose(text)]
        if printed is not None:
            block = CodeBlock("x", f"b{number}")
            parts.append(block)
            events += [
                BlockQueued(number, block.id, block, 1.0),
                BlockOutput(block.id, StreamOutput("stdout", printed)),
            ]
            events.append(BlockFinished(BlockResult(block.id, block, Outcome(), (), 1.0, 1.0, 2.0)))
        events.append(Appended(number, Reply(number, text, tuple(parts), usage=Usage(100, 0, 7, 1, 0.25))))
    events.append(RunEnded("answered", answer, Usage(), len(turns), 9.0))
    place = Folder.make(folder)
    write_journal(place, "journal.jsonl", events, None)
    place.close()
    return folder


def rows(said, name):
    return [line for line in said.out.splitlines() if name in line]


def test_runs_that_differ_in_what_is_volatile_alone_are_the_same(codeact, place):
    a = kept(place / "a", ("I look.", "took 1.5 s"), ("Done.", None))
    b = kept(place / "b", ("I look.", "took 2.5 s"), ("Done.", None))
    said = codeact("diff", a, b)
    assert (said.code, said.err) == (0, "")
    assert len(rows(said, "= turn")) == 2
    assert "I look." not in said.out


def test_turns_that_differ_are_shown_side_by_side_with_what_they_cost(codeact, place):
    a = kept(place / "a", ("I look.", "12"), ("Twelve.", None), answer="Twelve.")
    b = kept(place / "b", ("I look.", "13"), ("I count.\nAgain.", "13"), ("Done.", None), model="other")
    said = codeact("diff", a, b)
    assert said.code == 1
    assert len(rows(said, "≠ turn")) == 3
    (model,) = rows(said, "model")
    assert model.split() == ["model", "m", "other"]
    (cost,) = rows(said, "cost")
    assert cost.split() == ["cost", "$0.5000", "$0.7500"]
    (second,) = rows(said, "≠ turn 2")
    assert "Twelve." in second
    assert "I count." in second
    assert "—" in rows(said, "≠ turn 3")[0]
    assert said.out.count("100 tokens in, 7 out, $0.2500") == 5


def test_a_stranger_sends_nothing_to_the_terminal(codeact, place):
    said = codeact("diff", kept(place / "a", (EVIL, EVIL)), kept(place / "b", ("x", EVIL)))
    assert "\x1b" not in said.out
    assert "\x07" not in said.out
    assert codeact("diff", place / "a", place / "none").code == 2

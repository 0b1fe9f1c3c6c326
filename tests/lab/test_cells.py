"""Events as cells, and cells as operations that a page follows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab_page import Shown

from codeact_kernel.blocks import (
    AgentBlock,
    BlockResult,
    ClearOutput,
    CodeBlock,
    DisplayOutput,
    ErrorOutput,
    Fault,
    Outcome,
    Prose,
    StreamOutput,
)
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    NoteReceived,
    Reply,
    ReplyDelta,
    RunEnded,
    RunStarted,
    Spent,
    TurnStarted,
)
from codeact_kernel.lab.cell import TEXT
from codeact_kernel.messages import Usage

CODE = "x = 1\nprint(x)"
REPLY = f"I look.\n<run_code id=a>\n{CODE}\n</run_code>\nThen more."


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def queued(name="a", block=None):
    return BlockQueued(1, name, block or CodeBlock(CODE, id=name), 100.0)


def finished(name="a", **outcome):
    block = CodeBlock(CODE, id=name)
    return BlockFinished(BlockResult(name, block, Outcome(**outcome), (), 100.0, 100.5, 101.0))


def deltas(text, step=3):
    return [ReplyDelta(1, text[at : at + step]) for at in range(0, len(text), step)]


def whole(text, *parts, **about):
    return Appended(1, Reply(1, text, parts, finish="stop", **about))


def sources(shown):
    return [(kind, source, state) for kind, _, source, state, _, _ in shown.page.shown]


def test_code_appears_while_the_model_writes_it(shown):
    shown(TurnStarted(1, 100.0))
    seen = []
    for delta in deltas(REPLY):
        shown(delta)
        seen.append(sources(shown))
    assert [("prose", "I look.", ""), ("code", "x = 1\npri", "writing")] in seen
    assert seen[-1] == [("prose", "I look.", ""), ("code", CODE, "queued"), ("prose", "Then more.", "")]


def test_a_block_goes_through_its_states_and_keeps_its_times(shown):
    shown(TurnStarted(1, 100.0), *deltas(REPLY), queued())
    assert shown.page.shown[1][3:5] == ("queued", "a")
    shown(BlockStarted("a", "main", 100.5))
    assert shown.page.bar["blocks"] == ["a"]
    shown.now = 102.0
    shown(finished())
    cell = list(shown.page.cells.values())[1]
    assert (cell["state"], cell["started"], cell["ended"]) == ("ok", 100.5, 102.0)
    assert shown.page.bar["blocks"] == []


def test_outputs_come_as_they_are_made_and_streams_grow(shown):
    shown(queued(), BlockStarted("a", "main", 100.5))
    for text in "one ", "two\n":
        shown(BlockOutput("a", StreamOutput("stdout", text)))
    assert shown.page.shown[0][5] == [stream("one two\n")]
    shown(BlockOutput("a", DisplayOutput({"text/plain": "a"}, display_id="d")))
    shown(BlockOutput("a", StreamOutput("stdout", "three")))
    shown(BlockOutput("a", DisplayOutput({"text/plain": "b"}, display_id="d", update=True)))
    shown(BlockOutput("a", ErrorOutput("E", "e", ("tb",))))
    outputs = shown.page.shown[0][5]
    assert [o["output_type"] for o in outputs] == ["stream", "display_data", "stream", "error"]
    assert outputs[1]["data"] == {"text/plain": "b"}
    shown(BlockOutput("a", ClearOutput()), BlockOutput("a", StreamOutput("stderr", "last")))
    assert shown.page.shown[0][5] == [stream("last", "stderr")]


def test_a_block_updates_what_another_one_shows(shown):
    shown(queued("a"), BlockOutput("a", DisplayOutput({"text/plain": "a"}, display_id="d")))
    shown(queued("b", CodeBlock("b")), BlockOutput("b", DisplayOutput({"text/plain": "b"}, {}, "d", True)))
    assert [cell[5] for cell in shown.page.shown] == [
        [{"output_type": "display_data", "data": {"text/plain": "b"}, "metadata": {}}],
        [],
    ]


def test_very_much_text_is_cut_and_says_so(shown):
    shown(queued())
    for _ in range(30):
        shown(BlockOutput("a", StreamOutput("stdout", "x" * 10_000)))
    text = shown.page.shown[0][5][0]["text"]
    assert TEXT < len(text) < TEXT + 100
    assert text.endswith("[what follows is in the record]\n")


def test_a_block_that_is_refused_says_why_and_takes_no_later_ones_place(shown):
    text = f"<run_code id=a>\n1\n</run_code>\n<run_code id=b>\n{CODE}\n</run_code>\n"
    shown(TurnStarted(1, 100.0), *deltas(text), queued("b"))
    shown(whole(text, CodeBlock("1", id="a"), faults=(Fault("in use", "the id is in use", "a"),)))
    assert sources(shown) == [("code", "1", "rejected"), ("code", CODE, "queued")]
    assert next(iter(shown.page.cells.values()))["note"] == "the id is in use"


def test_sub_agents_stand_below_their_heading_whatever_comes_meanwhile(shown):
    shown(queued("scout", AgentBlock("look\naround", id="scout")), queued("late", AgentBlock("x", id="late")))
    scout, late = shown.cells.of_agent("scout"), shown.cells.of_agent("late")
    late(BlockQueued(1, "b", CodeBlock("late 1"), 100.0))
    scout(BlockQueued(1, "b", CodeBlock("scout 1"), 100.0))
    shown(NoteReceived("you", "hurry"))
    late(BlockQueued(1, "c", CodeBlock("late 2"), 100.0))
    shown.follow()
    assert [(cell[1], cell[2]) for cell in shown.page.shown] == [
        (0, "Sub-agent scout: look\naround"),
        (1, "scout 1"),
        (0, "Sub-agent late: x"),
        (1, "late 1"),
        (1, "late 2"),
        (0, "> **A note from you:** hurry"),
    ]
    assert [cell[2] for cell in shown.page.shown] == [cell.source for cell in shown.cells.all]


def test_prose_does_nothing(shown):
    shown(TurnStarted(1, 100.0), *deltas("<script>alert(1)</script> [x](javascript:alert(1))\n"))
    source = shown.page.shown[0][2]
    assert "<script>" not in source
    assert "](javascript:" not in source


def test_the_bar_tells_how_far_the_run_is(shown):
    shown(RunStarted("r", "t", "gpt", "", 100.0), TurnStarted(1, 100.0, 500, 1000))
    assert (shown.page.bar["model"], shown.page.bar["context"]) == ("gpt", 0.5)
    shown(Spent(Usage(10, 0, 5, 1, 0.25), 3, 1.0))
    assert [shown.page.bar[key] for key in ("turns", "tokens", "cost")] == [3, 15, 0.25]
    shown(RunEnded("limit", None, Usage(10, 0, 5, 1, 0.25), 3, 104.0, "no more turns"))
    assert [shown.page.bar[key] for key in ("state", "text", "ended")] == ["limit", "no more turns", 104.0]


def test_nothing_is_told_where_nothing_has_changed_and_numbers_have_no_gap(shown):
    shown(queued(), TurnStarted(1, 100.0))
    assert shown.cells.take() is None
    shown(BlockStarted("a", "main", 1.0))
    shown()
    assert shown.told == [0, 1]
    assert shown.cells.snapshot()[0] == 1
    shown(finished())
    assert shown.told == [0, 1, 2]


def test_questions_come_and_go(shown):
    shown(queued())
    shown.cells.ask("q1", title="Run a?")
    shown.follow()
    assert list(shown.page.questions) == ["q1"]
    assert list(shown.anew().questions) == ["q1"]
    shown.cells.asked("q1", "yes")
    shown.follow()
    assert not shown.page.questions


@pytest.mark.parametrize("protocol", ["tools", "json"])
def test_blocks_appear_when_they_are_launched_where_a_protocol_does_not_show_them_before(protocol):
    shown = Shown(protocol)
    shown(TurnStarted(1, 100.0), ReplyDelta(1, "I look."), queued())
    assert sources(shown)[-1] == ("code", CODE, "queued")


_outputs = st.one_of(
    st.builds(StreamOutput, st.sampled_from(["stdout", "stderr"]), st.text(max_size=5)),
    st.builds(
        lambda text, name, update: DisplayOutput({"text/plain": text}, {}, name, update),
        st.text("ab", max_size=2),
        st.sampled_from([None, "d", "e"]),
        st.booleans(),
    ),
    st.builds(ClearOutput, st.booleans()),
)
_events = st.one_of(
    st.builds(lambda text: ReplyDelta(1, text), st.text("a\n😀<run_code>/ ", max_size=8)),
    st.builds(BlockOutput, st.sampled_from("abc"), _outputs),
    st.builds(queued, st.sampled_from("abc")),
    st.builds(finished, st.sampled_from("abc")),
    st.just(TurnStarted(2, 1.0)),
    st.just(whole("", Prose("x"))),
    st.none(),
)


@given(st.lists(_events, max_size=40))
@settings(max_examples=150)
def test_a_page_that_has_followed_shows_what_one_shows_that_comes_at_the_end(events):
    shown = Shown()
    for event in events:
        if event is None:
            shown.follow()
        else:
            shown.cells(event)
    shown.follow()
    assert shown.anew().shown == shown.page.shown

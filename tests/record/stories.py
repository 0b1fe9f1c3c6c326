"""Runs as events, plain and random ones, and the notebooks that are made of them."""

import nbformat
from hypothesis import strategies as st

from codeact_kernel.blocks import (
    AgentBlock,
    BlockResult,
    Cancel,
    ClearOutput,
    CodeBlock,
    DisplayOutput,
    ErrorOutput,
    Outcome,
    Prose,
    ResultOutput,
    StreamOutput,
)
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Heartbeat,
    NoteReceived,
    Observation,
    Reply,
    ReplyDelta,
    Report,
    RunEnded,
    RunStarted,
    Task,
    TurnStarted,
)
from codeact_kernel.messages import ToolCall, Usage
from codeact_kernel.record import NotebookSettings, notebook_text, to_notebook
from codeact_kernel.record.layout import safe_json
from codeact_kernel.transcript import Transcript

T0 = 1_767_268_800.0
DL = CodeBlock("print('page 1')\n42", id="dl", timeout=60.0, after=())
SCOUT = AgentBlock("Read every page.\nReturn a list.", id="scout", namespace=("urls",))
REFUSED = CodeBlock("os.abort()")


def valid(transcript, **kept):
    """The notebook, after checking that it is valid, now and when it is read again."""
    notebook = to_notebook(transcript, NotebookSettings(**kept))
    nbformat.validate(nbformat.from_dict(notebook))
    text = notebook_text(notebook)
    assert text == safe_json(nbformat.writes(nbformat.from_dict(notebook))) + "\n"
    again = nbformat.reads(text, as_version=4)
    nbformat.validate(again)
    ids = [cell["id"] for cell in again.cells]
    assert len(set(ids)) == len(ids)
    return again


def told(*events):
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
    return transcript


def opened(*events):
    """A run with one turn, and what happened in it."""
    return told(RunStarted("run-1", "Do it", "m", "system", T0), TurnStarted(1, T0), *events)


def ran(block, *outputs, name="dl", status="ok"):
    """The events of one block."""
    return [
        BlockQueued(1, name, block, T0),
        BlockStarted(name, "main", T0 + 1),
        *(BlockOutput(name, output) for output in outputs),
        BlockFinished(BlockResult(name, block, Outcome(status, execution_count=7), (), T0, T0 + 1, T0 + 3.5)),
    ]


def story():
    """A run with everything in it, in the order in which a loop tells it."""
    reply = Reply(
        1,
        "I will look.\n<run_code>…",
        (Prose("I will "), Prose("look."), DL, REFUSED, Prose("And ask."), SCOUT, Cancel("old")),
        calls=(ToolCall("c1", "run_code", "{}"),),
        usage=Usage(100, 50, 20, 1, 0.01),
        started=T0 + 1,
        ended=T0 + 5,
    )
    return [
        RunStarted(
            "20260101-120000-pages", "Which pages changed?", "gpt", "You act.", T0, "Python 3.11.7, x"
        ),
        Appended(0, Task("Which pages changed?")),
        TurnStarted(1, T0 + 1),
        ReplyDelta(1, "I will"),
        BlockQueued(1, "dl", DL, T0 + 2),
        BlockStarted("dl", "main", T0 + 2.5),
        BlockOutput("dl", StreamOutput("stdout", "page 1\n")),
        BlockQueued(1, "scout", SCOUT, T0 + 3),
        Appended(1, reply),
        Heartbeat("dl", "page 1\n", 5.0),
        BlockOutput("dl", DisplayOutput({"image/png": "iVBORw0=", "text/plain": "<Figure>"}, display_id="p")),
        BlockOutput("dl", StreamOutput("stderr", "careful\n")),
        BlockOutput("dl", DisplayOutput({"text/plain": "<Figure 2>"}, display_id="p", update=True)),
        BlockOutput("dl", ResultOutput({"text/plain": "42"}, execution_count=3)),
        BlockFinished(
            BlockResult(
                "dl", DL, Outcome("ok", None, ("waited for x",), "main", 3), (), T0 + 2, T0 + 2.5, T0 + 9
            )
        ),
        BlockOutput("dl", StreamOutput("stdout", "late\n"), late=True),
        NoteReceived("user", "skip page 7"),
        BlockStarted("scout", "agent", T0 + 4),
        BlockFinished(
            BlockResult(
                "scout", SCOUT, Outcome("cancelled", "cancelled: by the user"), (), T0 + 3, T0 + 4, T0 + 9
            )
        ),
        Appended(
            1, Observation((Report("run_code_result", "page 1\n42", "dl"), Report("note", "skip page 7")))
        ),
        TurnStarted(2, T0 + 10),
        Appended(2, Reply(2, "Page 3.", (Prose("Page 3."),), usage=Usage(200, 0, 5, 1, 0.02))),
        RunEnded("answered", "Page 3.", Usage(300, 50, 25, 2, 0.03), 2, T0 + 200),
    ]


names = st.text(max_size=4) | st.sampled_from(["dl", "dl#2", "b1", "prose 0", "task"])
texts = (
    st.text(max_size=20)
    | st.text(st.characters(), max_size=5)
    | st.sampled_from(["\ud800", "\x00", "a\rb\n"])
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
kinds = (
    st.sampled_from(["text/plain", "image/png", "application/json", "application/x+json", "text/x+json"])
    | texts
)
bundles = st.dictionaries(kinds, values, max_size=3)
counts = st.none() | st.integers(0, 99)
outputs = st.one_of(
    st.builds(StreamOutput, st.sampled_from(["stdout", "stderr"]), texts),
    st.builds(DisplayOutput, bundles, bundles, st.none() | st.sampled_from(["d1", "d2"]), st.booleans()),
    st.builds(ResultOutput, bundles, bundles, counts),
    st.builds(ErrorOutput, texts, texts, st.lists(texts, max_size=2).map(tuple)),
    st.builds(ClearOutput, st.booleans()),
)
times = st.floats(0, 4e9)
blocks = st.builds(CodeBlock, texts, st.none() | names) | st.builds(AgentBlock, texts, st.none() | names)
parts = st.one_of(st.builds(Prose, texts), blocks, st.builds(Cancel, names))
statuses = st.sampled_from(["ok", "error", "timeout", "cancelled", "rejected", "skipped", "died"])
outcomes = st.builds(
    Outcome, statuses, st.none() | texts, st.lists(texts, max_size=2).map(tuple), execution_count=counts
)


@st.composite
def streams_of_events(draw):
    """Events that a loop could send: what belongs to a run, turn or block comes when there is one."""
    events = [draw(st.builds(RunStarted, names, texts, texts, texts, times, texts))]
    known: list[str] = []
    turns = 0
    for step in draw(st.lists(st.integers(0, 9), max_size=30)):
        if turns == 0 or step == 0:
            events.append(draw(st.builds(TurnStarted, st.integers(0, 3), times)))
            turns += 1
        elif step == 1:
            name = draw(names)
            known.append(name)
            events.append(BlockQueued(1, name, draw(blocks), draw(times)))
        elif step == 2:
            queued = [event.block for event in events if isinstance(event, BlockQueued)]
            said = draw(st.lists(parts | st.sampled_from(queued) if queued else parts, max_size=4))
            calls = st.lists(st.builds(ToolCall, texts, texts, texts), max_size=1).map(tuple)
            events.append(Appended(1, Reply(1, draw(texts), tuple(said), calls=draw(calls))))
        elif step == 3:
            report = st.builds(Report, st.just("note"), texts, st.none() | names)
            events.append(Appended(1, draw(st.builds(Observation, st.lists(report, max_size=2).map(tuple)))))
        elif step == 4:
            events.append(draw(st.builds(NoteReceived, texts, texts)))
        elif step == 5:
            stops = st.sampled_from(["answered", "limit", "cancelled", "failed"])
            ended = st.builds(RunEnded, stops, st.none() | texts, st.just(Usage()), st.just(1), times, texts)
            events += [draw(ended), draw(st.builds(RunStarted, names, texts, texts, texts, times))]
            turns = 0
        elif known and step == 6:
            events.append(BlockStarted(draw(st.sampled_from(known)), "main", draw(times)))
        elif known and step == 7:
            name = draw(st.sampled_from(known))
            result = BlockResult(name, CodeBlock(""), draw(outcomes), (), draw(times), None, draw(times))
            events.append(BlockFinished(result))
        elif known:
            events.append(BlockOutput(draw(st.sampled_from(known)), draw(outputs), late=draw(st.booleans())))
    return events

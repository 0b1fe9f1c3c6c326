"""A transcript as a notebook, and back: what a notebook holds comes back as it was."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records import told

from codeact_kernel.agent import RecordedRun
from codeact_kernel.agent.past import reply_parser
from codeact_kernel.blocks import (
    AgentBlock,
    BlockResult,
    CodeBlock,
    DisplayOutput,
    ErrorOutput,
    Outcome,
    Prose,
    ResultOutput,
    StreamOutput,
)
from codeact_kernel.dialogue import format_parts
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Knowledge,
    NoteReceived,
    Observation,
    Reply,
    Report,
    RunEnded,
    RunStarted,
    Task,
    TurnStarted,
)
from codeact_kernel.messages import ToolCall, Usage
from codeact_kernel.record import edits, notebook_events, notebook_text, to_notebook
from codeact_kernel.transcript import Transcript

TOLD = ("run_code", "run_agent", "prose")
"""The kinds of cells of which it is told that they were taken out."""

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
lines = st.text("ab1 \n=()'\"éß漢🎉#", max_size=30).map(str.strip)
figures = st.builds(Usage, st.integers(0, 99), st.integers(0, 9), st.integers(0, 99), st.integers(1, 2))
outputs = st.lists(
    st.one_of(
        st.builds(StreamOutput, st.sampled_from(["stdout", "stderr"]), words.filter(bool)),
        st.builds(DisplayOutput, st.just({"image/png": "iVBORw0=", "text/plain": "<Figure>"})),
        st.builds(ResultOutput, st.fixed_dictionaries({"text/plain": words}), st.just({}), st.integers(1, 9)),
        st.builds(ErrorOutput, st.just("ValueError"), words, st.lists(words, max_size=2).map(tuple)),
    ),
    max_size=4,
)
statuses = st.sampled_from(["ok", "error", "timeout", "cancelled", "skipped", "died"])


@st.composite
def parts(draw, number):
    """The parts of a reply, as a grammar reads them."""
    made = [Prose(draw(lines))]
    for at in range(draw(st.integers(0, 3))):
        name = f"b{number}-{at}"
        if draw(st.integers(0, 4)):
            code = draw(lines) or "x"
            made.append(
                CodeBlock(
                    code, name, draw(st.none() | st.just(60.0)), after=draw(st.sampled_from([None, ()]))
                )
            )
        else:
            made.append(AgentBlock(draw(lines) or "Look.", name, ("x",) if draw(st.booleans()) else ()))
    return tuple(made)


@st.composite
def runs(draw, protocol):
    """The events of up to two runs, each with its end."""
    read, turn, at, events = reply_parser(protocol), 0, 1000.0, []
    for name in draw(st.sampled_from(["r", "rs"])):
        task = draw(lines) or "Do it."
        events += [
            RunStarted(name, task, "m", "s", at, options={"protocol": protocol}),
            Appended(turn, Task(task)),
        ]
        first = turn
        for _ in range(draw(st.integers(1, 4))):
            turn, at = turn + 1, at + 10.0
            events.append(TurnStarted(turn, at))
            said, calls = draw(parts(turn)), ()
            if protocol == "tools":
                codes = [part for part in said if isinstance(part, CodeBlock)]
                given = [json.dumps({"code": block.code, "id": block.id}) for block in codes]
                calls = tuple(ToolCall(f"c{turn}-{n}", "run_code", text) for n, text in enumerate(given))
                text = draw(lines)
            else:
                text = format_parts(said)
            said = read(text, calls)
            blocks = [part for part in said if isinstance(part, CodeBlock | AgentBlock)]
            ids = tuple(block.id for block in blocks[: len(calls)])
            reply = Reply(turn, text, said, (), calls, ids, draw(figures), at, at + 1.0)
            events.append(Appended(turn, reply))
            for block in blocks:
                events += [BlockQueued(turn, block.id, block, at + 1), BlockStarted(block.id, "main", at + 2)]
                events += [BlockOutput(block.id, output) for output in draw(outputs)]
                outcome = Outcome(
                    draw(statuses), draw(st.none() | words) or None, (), "main", draw(st.integers(1, 9))
                )
                events.append(
                    BlockFinished(BlockResult(block.id, block, outcome, (), at + 1, at + 2, at + 5))
                )
            if draw(st.booleans()):
                events.append(NoteReceived("user", draw(words)))
            reports = tuple(Report("run_code_result", draw(words), block.id) for block in blocks)
            events.append(Appended(turn, Observation(reports)))
            if not draw(st.integers(0, 5)):
                events.append(Appended(turn, Knowledge(draw(words), "nothing lives")))
        stop = draw(st.sampled_from(["limit", "cancelled", "failed"]))
        events.append(RunEnded(stop, None, Usage(), turn - first, at + 9.0, draw(words)))
        at += 100.0
    return events


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.sampled_from(["tags", "tools"]).flatmap(runs))
def test_a_notebook_that_is_read_back_makes_the_same_notebook_and_the_same_context(events):
    live = told(events)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.ipynb"
        path.write_text(notebook_text(to_notebook(live)), "utf-8")
        again = RecordedRun.load(path)
    assert again.to_notebook() == to_notebook(live)
    assert again.transcript.entries == live.entries
    assert again.messages() == replace(again, transcript=live).messages()
    assert edits(again.to_notebook(), again.transcript.runs) == ""


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.sampled_from(["tags", "tools"]).flatmap(runs), st.randoms())
def test_of_what_was_taken_out_all_is_told_and_nothing_else(events, random):
    notebook = to_notebook(told(events))
    ours = [cell for cell in notebook["cells"] if cell["metadata"]["codeact"]["kind"] in TOLD]
    gone = random.sample(ours, random.randint(0, len(ours)))
    notebook["cells"] = [cell for cell in notebook["cells"] if cell not in gone]
    transcript = Transcript()
    for event in notebook_events(notebook, reply_parser(events[0].options["protocol"])):
        transcript.apply(event)
    assert edits(notebook, transcript.runs).count(" was taken out") == len(gone)

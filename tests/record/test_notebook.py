"""The notebook of a transcript: valid at every moment, and a faithful account."""

import json
import re
import time
import warnings
from dataclasses import asdict
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stories import DL, REFUSED, T0, opened, ran, story, streams_of_events, told, valid

from codeact_kernel.blocks import (
    BlockResult,
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
from codeact_kernel.record import notebook_text, to_notebook
from codeact_kernel.transcript import Transcript


def outputs_of(*outputs, **kept):
    """The outputs of a cell whose block put these out."""
    return valid(opened(*ran(DL, *outputs)), **kept).cells[1].outputs


def test_the_notebook_is_valid_after_every_single_event():
    transcript = Transcript()
    valid(transcript)
    for event in story():
        transcript.apply(event)
        valid(transcript)


def test_a_run_reads_from_its_task_to_its_answer():
    cells = valid(told(*story())).cells
    assert [(cell.cell_type, cell.metadata.codeact.kind) for cell in cells] == [
        ("markdown", "task"),
        ("markdown", "summary"),
        ("markdown", "prose"),
        ("code", "run_code"),
        ("raw", "run_code"),
        ("markdown", "prose"),
        ("code", "run_agent"),
        ("markdown", "beyond"),
        ("markdown", "note"),
        ("markdown", "answer"),
    ]
    assert [cell.source for cell in cells if cell.metadata.codeact.kind != "summary"] == [
        "# Which pages changed?",
        "I will look.",
        "print('page 1')\n42",
        "os.abort()",
        "And ask.",
        "# run_agent scout\n# Read every page.\n# Return a list.",
        "The sub-agent's own record: [agents/scout/run.ipynb](agents/scout/run.ipynb)",
        "> **A note from user:** skip page 7",
        "## Answer\n\nPage 3.\n\n---\n\n*Answered after 2 turns, 3m20s; 300 tokens in, 25 out, $0.0300.*",
    ]


def test_the_cell_of_a_block_has_jupyters_own_outputs():
    cell = valid(told(*story())).cells[3]
    assert cell.execution_count == 3
    assert cell.outputs == [
        {"output_type": "stream", "name": "stdout", "text": "page 1\n"},
        {"output_type": "display_data", "data": {"text/plain": "<Figure 2>"}, "metadata": {}},
        {"output_type": "stream", "name": "stderr", "text": "careful\n"},
        {"output_type": "execute_result", "execution_count": 3, "data": {"text/plain": "42"}, "metadata": {}},
        {"output_type": "stream", "name": "stdout", "text": "late\n"},
    ]


def test_the_metadata_of_a_block_tells_all_that_the_cell_does_not_show():
    cells = valid(told(*story())).cells
    assert cells[3].metadata == {
        "codeact": {
            "schema": 1,
            "run": "20260101-120000-pages",
            "kind": "run_code",
            "turn": 1,
            "mark": sha256(DL.code.encode()).hexdigest()[:16],
            "id": "dl",
            "status": "ok",
            "attributes": {"id": "dl", "timeout": 60.0, "after": []},
            "lane": "main",
            "late": 1,
            "notes": ["waited for x"],
            "volatile": {"queued": T0 + 2, "started": T0 + 2.5, "ended": T0 + 9, "duration": 6.5},
        },
        "execution": {
            "iopub.status.busy": "2026-01-01T12:00:02.500000Z",
            "iopub.execute_input": "2026-01-01T12:00:02.500000Z",
            "shell.execute_reply.started": "2026-01-01T12:00:02.500000Z",
            "shell.execute_reply": "2026-01-01T12:00:09.000000Z",
            "iopub.status.idle": "2026-01-01T12:00:09.000000Z",
        },
    }
    scout = cells[6].metadata
    assert scout.codeact.status == "cancelled"
    assert scout.codeact.error == "cancelled: by the user"
    assert scout.codeact.attributes.task == "Read every page.\nReturn a list."
    assert scout.tags == ["skip-execution"]
    assert cells[2].metadata.codeact.volatile.usage.input_tokens == 100


def test_the_notebook_itself_tells_of_the_run_and_holds_the_raw_replies():
    notebook = valid(told(*story()))
    about = notebook.metadata.codeact
    assert notebook.metadata.kernelspec == {
        "name": "codeact",
        "display_name": "CodeAct (Python 3)",
        "language": "python",
    }
    assert notebook.metadata.language_info.version == "3.11.7"
    assert (about.schema, about.run_id, about.model) == (1, "20260101-120000-pages", "gpt")
    assert (about.task, about.stop_reason, about.turns) == ("Which pages changed?", "answered", 2)
    assert about.usage == {
        "input_tokens": 300,
        "cached_tokens": 50,
        "output_tokens": 25,
        "calls": 2,
        "cost": 0.03,
        "estimated": False,
    }
    assert about.replies == [
        {
            "text": "I will look.\n<run_code>…",
            "finish": "stop",
            "calls": [{"id": "c1", "name": "run_code", "arguments": "{}"}],
            "volatile": {"started": T0 + 1, "ended": T0 + 5, "usage": asdict(Usage(100, 50, 20, 1, 0.01))},
        },
        {
            "text": "Page 3.",
            "finish": "stop",
            "calls": [],
            "volatile": {"started": 0.0, "ended": 0.0, "usage": asdict(Usage(200, 0, 5, 1, 0.02))},
        },
    ]
    assert about.notes == [
        {"run_id": "20260101-120000-pages", "turn": 1, "from": "user", "text": "skip page 7"}
    ]
    assert [entry.type for entry in about.context] == ["Task", "Reply", "Observation", "Reply"]
    assert about.context[2].reports[1].body == "skip page 7"


def test_a_live_block_says_whether_it_waits_or_runs():
    transcript = opened(BlockQueued(1, "dl", DL, T0))
    assert valid(transcript).cells[1].metadata.codeact.status == "waiting"
    assert "execution" not in valid(transcript).cells[1].metadata
    transcript.apply(BlockStarted("dl", "async", T0 + 1))
    cell = valid(transcript).cells[1]
    assert (cell.metadata.codeact.status, cell.execution_count) == ("running", None)
    assert sorted(cell.metadata.execution) == [
        "iopub.execute_input",
        "iopub.status.busy",
        "shell.execute_reply.started",
    ]


def test_cell_ids_stay_the_same_while_the_run_goes_on():
    transcript = Transcript()
    ids = {}
    for event in story():
        transcript.apply(event)
        for cell in valid(transcript).cells:
            ids.setdefault(
                cell.id, (cell.cell_type, cell.metadata.codeact.kind, cell.source.split("\n\n")[0])
            )
    assert len([kind for _, kind, _ in ids.values() if kind == "run_code"]) == 2
    assert len([kind for _, kind, _ in ids.values() if kind == "task"]) == 1
    first = valid(told(*story()))
    assert [cell.id for cell in first.cells] == [cell.id for cell in valid(told(*story())).cells]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", cell.id) for cell in first.cells)
    assert first.cells[3].id.startswith("20260101-120000-pages-1-dl-")


@pytest.mark.parametrize("name", ["dl#2", "ä.ö:ü", "x" * 300, "\ud800", "../..", "-"])
def test_any_name_makes_a_valid_cell_id_and_never_that_of_another(name):
    other = CodeBlock("2")
    cells = valid(opened(*ran(DL, name=name), *ran(other, name=name + "!"))).cells
    assert cells[1].id != cells[2].id


def test_a_failed_block_can_be_executed_again_and_one_that_never_ended_is_left_out():
    for status, tags in (
        ("ok", None),
        ("error", ["raises-exception"]),
        ("timeout", ["skip-execution"]),
        ("skipped", ["skip-execution"]),
        ("rejected", ["skip-execution"]),
        ("died", ["skip-execution"]),
    ):
        assert valid(opened(*ran(DL, status=status))).cells[1].metadata.get("tags") == tags


def test_a_long_task_has_a_short_heading_and_stands_below_it_in_full():
    task = "Read " + "very " * 30 + "much.\nSecond line."
    source = valid(told(RunStarted("r", task, "m", "s", T0))).cells[0].source
    heading, _, body = source.partition("\n\n")
    assert heading.endswith("…")
    assert len(heading) < 90
    assert body == task
    assert valid(told(RunStarted("r", "# Title", "m", "s", T0))).cells[0].source == "# Title\n\n# Title"


@pytest.mark.parametrize(
    ("stop", "title"),
    [("limit", "Stopped at a limit"), ("cancelled", "Cancelled"), ("failed", "Failed")],
)
def test_a_run_without_an_answer_says_why_it_stopped(stop, title):
    transcript = opened(RunEnded(stop, None, Usage(cost=None), 1, T0 + 5, "20 turns are used up."))
    last = valid(transcript).cells[-1]
    assert last.source.startswith(
        f"## {title}\n\n20 turns are used up.\n\n---\n\n*{title} after 1 turn, 5.0s;"
    )
    assert last.metadata.codeact.stop_reason == stop


def test_prose_that_is_not_the_answer_stays_beside_it():
    transcript = opened(
        Appended(1, Reply(1, "x", (Prose("Thinking."), DL, Prose("Done.")))),
        RunEnded("answered", "Done.", Usage(), 1, T0),
    )
    assert [cell.source.split("\n")[0] for cell in valid(transcript).cells[2:]] == [
        "Thinking.",
        "print('page 1')",
        "## Answer",
    ]


def test_a_chat_is_one_notebook_with_a_heading_a_message():
    transcript = told(*story(), RunStarted("run-2", "And now?", "m", "s", T0), TurnStarted(1, T0))
    transcript.apply(RunEnded("answered", "Nothing.", Usage(), 1, T0))
    notebook = valid(transcript)
    assert [cell.source for cell in notebook.cells if cell.metadata.codeact.kind == "task"] == [
        "# Which pages changed?",
        "# And now?",
    ]
    assert notebook.metadata.codeact.run_id == "run-2"


def test_a_block_that_a_hook_has_changed_stands_where_its_reply_has_it_as_it_ran():
    changed = CodeBlock("print(2)")
    transcript = opened(
        *ran(changed), Appended(1, Reply(1, "x", (CodeBlock("print(1)"), Prose("And then?"))))
    )
    assert [cell.source for cell in valid(transcript).cells[2:]] == ["print(2)", "And then?"]


def test_two_blocks_that_read_the_same_have_a_cell_each():
    same = CodeBlock("print(1)")
    transcript = opened(
        *ran(same, StreamOutput("stdout", "a"), name="b1"),
        *ran(same, StreamOutput("stdout", "b"), name="b2"),
        Appended(1, Reply(1, "x", (same, REFUSED, same))),
    )
    cells = valid(transcript).cells[2:]
    assert [cell.cell_type for cell in cells] == ["code", "raw", "code"]
    assert [cells[at].outputs[0].text for at in (0, 2)] == ["a", "b"]


def test_a_compaction_is_told_in_the_context():
    transcript = opened(Appended(1, Knowledge("I know that.", "dl runs")))
    assert valid(transcript).metadata.codeact.context == [
        {"type": "Knowledge", "text": "I know that.", "inventory": "dl runs"}
    ]


def test_streams_keep_their_order_and_are_joined():
    out, err = "stdout", "stderr"
    made = outputs_of(*(StreamOutput(n, t) for n, t in [(out, "a"), (out, "b"), (err, "c"), (out, "d")]))
    assert [(output.name, output.text) for output in made] == [(out, "ab"), (err, "c"), (out, "d")]


def test_clear_output_clears_at_once_or_when_the_next_output_comes():
    a, b = StreamOutput("stdout", "a"), StreamOutput("stdout", "b")
    assert outputs_of(a, ClearOutput()) == []
    assert [output.text for output in outputs_of(a, ClearOutput(wait=True))] == ["a"]
    assert [output.text for output in outputs_of(a, ClearOutput(wait=True), b)] == ["b"]
    c = StreamOutput("stderr", "c")
    assert [output.text for output in outputs_of(a, ClearOutput(wait=True), b, c)] == ["b", "c"]
    assert [output.text for output in outputs_of(a, ClearOutput(), b)] == ["b"]


def test_an_update_changes_every_display_with_its_id_and_makes_none():
    def shown(text, **more):
        return DisplayOutput({"text/plain": text}, **more)

    made = outputs_of(
        shown("1", display_id="bar"),
        shown("x"),
        shown("1", display_id="bar"),
        shown("2", display_id="bar", update=True),
        shown("?", display_id="nobody", update=True),
    )
    assert [output.data["text/plain"] for output in made] == ["2", "x", "2"]


def test_a_display_that_was_cleared_is_not_brought_back_by_an_update():
    made = outputs_of(
        DisplayOutput({"text/plain": "1"}, display_id="bar"),
        ClearOutput(),
        DisplayOutput({"text/plain": "2"}, display_id="bar", update=True),
    )
    assert made == []


def test_an_update_after_a_clear_is_of_the_display_that_another_block_still_shows():
    mine, update = (DisplayOutput({"text/plain": t}, display_id="bar", update=t == "2") for t in "12")
    maker = ran(DL, mine, name="maker")
    clearer = ran(CodeBlock("2"), mine, ClearOutput(), update, name="clearer")
    cells = valid(opened(*maker, *clearer)).cells[1:]
    assert [output.data["text/plain"] for output in cells[0].outputs] == ["2"]
    assert cells[1].outputs == []


@pytest.mark.parametrize("first", ["maker", "updater"])
def test_a_display_that_another_block_updates_stays_where_it_was_made(first):
    maker = ran(DL, DisplayOutput({"text/plain": "0%"}, display_id="bar"), name="maker")
    update = DisplayOutput({"text/plain": "100%"}, {"isolated": True}, display_id="bar", update=True)
    updater = ran(CodeBlock("2"), update, name="updater")
    cells = valid(opened(*(maker + updater if first == "maker" else updater + maker))).cells[1:]
    outputs = {cell.metadata.codeact.id: cell.outputs for cell in cells}
    assert outputs == {
        "maker": [
            {"output_type": "display_data", "data": {"text/plain": "100%"}, "metadata": {"isolated": True}}
        ],
        "updater": [],
    }


def test_an_error_keeps_its_traceback_with_colours():
    assert outputs_of(ErrorOutput("ValueError", "no", ("\x1b[31mTrace", "no"))) == [
        {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["\x1b[31mTrace", "no"]}
    ]


def test_bundles_that_nbformat_refuses_are_made_plain():
    (made,) = outputs_of(
        DisplayOutput(
            {
                "application/vnd.x+json": {"a": [1, float("nan")]},
                "application/json": [1],
                "text/html": ["<b>", "</b>"],
                "text/odd": {"a": 1},
                "image/png": None,
            },
            {"width": float("inf")},
        )
    )
    assert made.data == {
        "application/vnd.x+json": {"a": [1, None]},
        "application/json": [1],
        "text/html": "<b></b>",
        "text/odd": '{"a": 1}',
        "image/png": "null",
    }
    assert made.metadata == {"width": None}


def test_what_no_file_can_hold_is_replaced_everywhere():
    bad = "a\ud800b\x00c"
    block = CodeBlock(bad, id=bad)
    transcript = told(
        RunStarted(bad, bad, bad, bad, T0),
        Appended(0, Task(bad)),
        TurnStarted(1, T0),
        Appended(1, Reply(1, bad, (Prose(bad), block), calls=(ToolCall(bad, bad, bad),))),
        NoteReceived(bad, bad),
        BlockQueued(1, bad, block, T0),
        *(BlockOutput(bad, output) for output in (StreamOutput("stdout", bad), DisplayOutput({bad: bad}))),
        BlockOutput(bad, ErrorOutput(bad, bad, (bad,))),
        BlockFinished(BlockResult(bad, block, Outcome("error", bad, (bad,)))),
        Appended(1, Observation((Report("run_code_result", bad, bad, ((bad, bad),)),))),
        RunEnded("failed", bad, Usage(), 1, T0, bad),
    )
    text = notebook_text(valid(transcript))
    text.encode("utf-8")
    assert "\x00" not in text
    assert "\\u0000" not in text
    assert valid(transcript).cells[2].source == "a\ufffdb\ufffdc"


def test_a_long_stream_is_shortened_in_the_middle_with_a_note_and_a_count():
    out = StreamOutput("stdout", "".join(f"{n:09}\n" for n in range(100_000)))
    cell = valid(opened(*ran(DL, out)), stream_limit=1000).cells[1]
    (made,) = cell.outputs
    assert made.text.startswith("000000000\n000000001\n")
    assert made.text.endswith("000099998\n000099999\n")
    assert "999,000 characters are left out of this notebook" in made.text
    assert len(made.text) < 1200
    assert cell.metadata.codeact.truncated == 999_000


def test_what_is_not_longer_than_the_limit_is_left_whole():
    cell = valid(opened(*ran(DL, StreamOutput("stdout", "x" * 1000))), stream_limit=1000).cells[1]
    assert cell.outputs[0].text == "x" * 1000
    assert "truncated" not in cell.metadata.codeact


@given(
    st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text("abc", max_size=9)), max_size=12),
    st.integers(0, 40),
)
def test_shortening_keeps_the_beginning_and_the_end_over_all_streams(pieces, limit):
    whole = "".join(text for _, text in pieces)
    made = outputs_of(*(StreamOutput(name, text) for name, text in pieces), stream_limit=limit)
    text = "".join(output.text for output in made)
    if len(whole) <= limit:
        assert text == whole
        return
    kept = re.sub(r"\n\[… [\d,]+ characters are left out .*? …\]\n", "|", text)
    assert kept == whole[: limit // 2] + "|" + whole[len(whole) - (limit - limit // 2) :]


def test_other_outputs_stay_when_a_stream_is_shortened():
    made = outputs_of(
        StreamOutput("stdout", "a" * 500),
        DisplayOutput({"text/plain": "plot"}),
        StreamOutput("stderr", "all of this is left out"),
        DisplayOutput({"text/plain": "plot"}),
        StreamOutput("stdout", "b" * 500),
        ResultOutput({"text/plain": "42"}),
        stream_limit=10,
    )
    assert [output.output_type for output in made] == [
        "stream",
        "display_data",
        "display_data",
        "stream",
        "execute_result",
    ]


def test_a_notebook_of_three_hundred_blocks_is_written_in_seconds():
    transcript = told(RunStarted("run", "Much", "m", "s" * 8000, T0))
    for turn in range(300):
        block = CodeBlock("x = 1\nprint(x)\n" * 20, id=f"b{turn}")
        transcript.apply(TurnStarted(turn, T0))
        for event in ran(
            block, StreamOutput("stdout", "fifty characters of output in a line, as it is .\n" * 400)
        ):
            transcript.apply(event)
        transcript.apply(Appended(turn, Reply(turn, "x" * 500, (Prose("words " * 50), block))))
        transcript.apply(Appended(turn, Observation((Report("run_code_result", "y" * 2000, f"b{turn}"),))))
    before = time.process_time()
    text = notebook_text(to_notebook(transcript))
    assert time.process_time() - before < 3.0
    assert len(json.loads(text)["cells"]) == 602


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(streams_of_events(), st.integers(0, 60))
def test_whatever_happens_the_notebook_is_valid_at_every_step(events, limit):
    transcript = Transcript()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for event in events:
            transcript.apply(event)
            valid(transcript, stream_limit=limit)

"""What a person has changed in a record."""

import copy
from dataclasses import replace

import nbformat
import pytest
from stories import DL, SCOUT, opened, ran, story, told

from codeact_kernel.blocks import Cancel, Prose, StreamOutput
from codeact_kernel.events import Appended, Reply
from codeact_kernel.messages import ToolCall
from codeact_kernel.record import edits, notebook_events, to_notebook
from codeact_kernel.transcript import Transcript


@pytest.fixture
def notebook():
    reply = Reply(1, "I look.", (Prose("I look."), DL, SCOUT))
    return to_notebook(
        opened(*ran(DL, StreamOutput("stdout", "1\n")), *ran(SCOUT, name="scout"), Appended(1, reply))
    )


def cell_of(notebook, kind):
    return next(cell for cell in notebook["cells"] if cell["metadata"]["codeact"]["kind"] == kind)


def test_nothing_is_told_of_a_notebook_that_nobody_has_changed(notebook):
    assert edits(notebook) == ""
    assert edits(to_notebook(told(*story()))) == ""
    assert edits(nbformat.reads(nbformat.writes(nbformat.from_dict(notebook)), as_version=4)) == ""


def test_what_was_changed_is_told_with_what_it_shows(notebook):
    cell = cell_of(notebook, "run_code")
    cell["source"] = "print(2)"
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "\x1b[31m2\n"}]
    cell_of(notebook, "prose")["source"] = "I looked."
    text = edits(notebook)
    assert text.startswith("While this run stood still, its record was edited by hand.")
    assert "Block dl reads now:\nprint(2)\n[it shows]\n2\n" in text
    assert "A text of turn 1 reads now:\nI looked." in text


def test_what_was_added_is_told_with_its_place(notebook):
    new = nbformat.v4.new_code_cell("1/0")
    new.outputs = [
        nbformat.v4.new_output("error", ename="ZeroDivisionError", evalue="division", traceback=[])
    ]
    at = notebook["cells"].index(cell_of(notebook, "run_agent"))
    notebook["cells"].insert(at, new)
    notebook["cells"].append(nbformat.v4.new_markdown_cell("Do not forget Bern."))
    notebook["cells"].append(nbformat.v4.new_code_cell("  "))
    text = edits(notebook)
    assert "After block dl, a code cell was added:\n1/0\n[it fails] ZeroDivisionError: division" in text
    assert "a markdown cell was added:\nDo not forget Bern." in text
    assert text.count("was added") == 2


def test_a_copy_of_a_block_is_an_added_cell_and_no_second_block(notebook):
    cell = cell_of(notebook, "run_code")
    twin = copy.deepcopy(cell) | {"id": "twin", "source": "print(3)"}
    notebook["cells"].insert(notebook["cells"].index(cell) + 1, twin)
    assert "After block dl, a code cell was added:\nprint(3)" in edits(notebook)
    notebook["metadata"]["codeact"]["context"].insert(0, {"type": "Task", "text": "Do it"})
    transcript = Transcript()
    for event in notebook_events(notebook, lambda text, calls: (Prose(text),)):
        transcript.apply(event)
    assert [block.id for turn in transcript.runs[0].turns for block in turn.blocks] == ["dl", "scout"]


def rebuilt(notebook, *parts):
    """The runs that a notebook tells of, whose only reply has these parts."""
    notebook["metadata"]["codeact"]["context"].insert(0, {"type": "Task", "text": "Do it"})
    transcript = Transcript()
    for event in notebook_events(notebook, lambda text, calls: parts):
        transcript.apply(event)
    return transcript.runs


def test_what_was_taken_out_is_told_once_and_what_is_left_is_not(notebook):
    whole = copy.deepcopy(notebook)
    parts = Prose("I look."), DL, SCOUT
    assert edits(whole, rebuilt(whole, *parts)) == ""
    notebook["cells"].remove(cell_of(notebook, "run_code"))
    notebook["cells"].remove(cell_of(notebook, "prose"))
    text = edits(notebook, rebuilt(notebook, *parts))
    assert f"Block dl of turn 1 was taken out; what it did stays done:\n{DL.code}" in text
    assert "A text of turn 1 was taken out:\nI look." in text
    assert text.count("taken out") == 2


def test_a_whole_turn_and_the_heading_may_be_taken_out(notebook):
    for kind in ("run_code", "run_agent", "prose", "task"):
        notebook["cells"].remove(cell_of(notebook, kind))
    runs = rebuilt(notebook, Prose("I look."), DL, SCOUT)
    assert runs[0].start.run_id == notebook["metadata"]["codeact"]["run_id"]
    text = edits(notebook, runs)
    assert "Sub-agent scout of turn 1 was taken out" in text
    assert text.count("taken out") == 3


def test_of_two_blocks_that_read_the_same_the_one_that_is_gone_is_missed_once(notebook):
    twin = replace(DL, id="dl2")
    reply = Reply(1, "x", (DL, twin))
    notebook = to_notebook(opened(*ran(DL), *ran(twin, name="dl2"), Appended(1, reply)))
    notebook["cells"].remove(cell_of(notebook, "run_code"))
    assert edits(notebook, rebuilt(notebook, DL, twin)).count("taken out") == 1


def test_calls_keep_their_own_blocks_when_one_is_taken_out():
    calls = (
        ToolCall("c1", "run_code", "{}"),
        ToolCall("c2", "cancel", "{}"),
        ToolCall("c3", "run_code", "{}"),
    )
    other = replace(DL, id="b2", code="print(2)")
    reply = Reply(1, "", (DL, Cancel("x"), other), (), calls, ("dl", None, "b2"))
    notebook = to_notebook(opened(*ran(DL), *ran(other, name="b2"), Appended(1, reply)))
    runs = rebuilt(copy.deepcopy(notebook), DL, Cancel("x"), other)
    assert runs[0].turns[0].reply.job_ids == ("dl", None, "b2")
    notebook["cells"].remove(cell_of(notebook, "run_code"))
    runs = rebuilt(notebook, DL, Cancel("x"), other)
    assert runs[0].turns[0].reply.job_ids == (None, None, "b2")

"""A notebook that is read back."""

import pytest

from codeact_kernel.blocks import BlockResult, CodeBlock, Outcome, Prose, StreamOutput
from codeact_kernel.errors import RecordError
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    NoteReceived,
    Observation,
    Reply,
    Report,
    RunEnded,
    RunStarted,
    Task,
    TurnStarted,
)
from codeact_kernel.messages import Usage
from codeact_kernel.record import NotebookFile, is_ours, notebook_events, read_notebook, to_notebook
from codeact_kernel.signing import Signer
from codeact_kernel.transcript import Transcript

USED = Usage(1000, 200, 30, 1, 0.5)
PARTS = {"Done.": (Prose("Done."),)}


def run(name, first, stop="answered", message=""):
    """A run of three turns: two blocks, two notes, and its end."""
    yield RunStarted(name, f"Task {name}.", "m", "system", float(first), options={"approve": "auto"})
    yield Appended(first - 1, Task(f"Task {name}."))
    for number in range(first, first + 2):
        block = CodeBlock(f"print({number})", id=f"b{number}")
        PARTS[f"Now {number}."] = (Prose(f"Now {number}."), block)
        yield TurnStarted(number, float(number))
        yield BlockQueued(number, block.id, block, float(number))
        yield BlockStarted(block.id, "main", number + 0.1)
        yield NoteReceived("user", f"note {number}")
        yield BlockOutput(block.id, StreamOutput("stdout", f"{number}\n"))
        yield Appended(number, said(number, f"Now {number}."))
        outcome = Outcome(execution_count=number)
        yield BlockFinished(BlockResult(block.id, block, outcome, (), number, number + 0.1, number + 0.5))
        yield Appended(number, Observation((Report("run_code_result", str(number), block.id),)))
    yield TurnStarted(first + 2, first + 2.0)
    answer = "Done." if stop == "answered" else None
    if answer:
        yield Appended(first + 2, said(first + 2, answer))
    yield RunEnded(stop, answer, USED, 3, first + 3.0, message)


def said(turn, text):
    return Reply(turn, text, PARTS[text], usage=USED, started=float(turn), ended=turn + 0.4)


def told(events):
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
    return transcript


@pytest.mark.parametrize("last", [("limit", "2 turns are used up"), ("answered", "")])
def test_the_notebook_of_what_was_read_back_reads_as_the_one_that_was_read(tmp_path, last):
    live = told([*run("r", 1), *run("s", 4, *last)])
    assert NotebookFile(tmp_path / "run.ipynb").write(live) is None
    again = told(notebook_events(read_notebook(tmp_path / "run.ipynb"), lambda text, calls: PARTS[text]))
    before, after = to_notebook(live), to_notebook(again)
    assert [cell["source"] for cell in after["cells"]] == [cell["source"] for cell in before["cells"]]
    assert [cell.get("outputs") for cell in after["cells"]] == [
        cell.get("outputs") for cell in before["cells"]
    ]
    about, known = after["metadata"]["codeact"], before["metadata"]["codeact"]
    for name in ("context", "replies", "notes", "usage", "task", "stop_reason", "answer", "message"):
        assert about.get(name) == known.get(name), name
    assert [note.text for note in again.notes] == ["note 1", "note 2", "note 4", "note 5"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cells": [], "metadata": []}', '{"cells": 1, "metadata": {}}', "1"]
)
def test_what_is_no_record_is_an_error_of_the_record(tmp_path, text):
    path = tmp_path / "run.ipynb"
    path.write_text(text)
    with pytest.raises(RecordError):
        read_notebook(path)
    with pytest.raises(RecordError):
        is_ours(path, Signer(b"k" * 32))

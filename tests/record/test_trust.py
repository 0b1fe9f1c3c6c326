"""Which records are ours; and none of them is one that Jupyter trusts."""

from __future__ import annotations

import json
import os

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from codeact_kernel.blocks import BlockResult, CodeBlock, DisplayOutput, Outcome, ResultOutput, StreamOutput
from codeact_kernel.errors import RecordError
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Reply,
    RunEnded,
    RunStarted,
    Task,
    TurnStarted,
)
from codeact_kernel.messages import Usage
from codeact_kernel.record import is_ours, write_notebook
from codeact_kernel.signing import Signer
from codeact_kernel.transcript import Transcript

SIGNER = Signer(b"k" * 32)
BLOCK = CodeBlock("show()\nprint('é\u2028')", id="dl")


@pytest.fixture
def record(tmp_path):
    """A record as a run leaves it, with HTML from a block and odd texts."""
    transcript = Transcript()
    html = {"text/html": "<script>alert(1)</script>", "application/json": {"z": ["a\n", "b"], "a": 1.5}}
    outputs = (
        StreamOutput("stdout", "one\ntwo\r\n\u2028three"),
        DisplayOutput(html, {"trusted": True, "isolated": False}),
        ResultOutput({"text/plain": ""}, execution_count=1),
    )
    for event in (
        RunStarted("r", "A task.\nWith more.", "m", "system", 1.0, "Python 3.11.7"),
        Appended(0, Task("A task.")),
        TurnStarted(1, 1.0),
        BlockQueued(1, "dl", BLOCK, 2.0),
        BlockStarted("dl", "main", 2.5),
        *(BlockOutput("dl", output) for output in outputs),
        BlockFinished(BlockResult("dl", BLOCK, Outcome(execution_count=1), outputs, 2.0, 2.5, 3.0)),
        Appended(1, Reply(1, "x", (BLOCK,))),
        RunEnded("answered", "Done.", Usage(), 1, 4.0),
    ):
        transcript.apply(event)
    path = tmp_path / "run.ipynb"
    assert write_notebook(path, transcript, signer=SIGNER) is None
    return path


def changed(path, change):
    notebook = json.loads(path.read_text("utf-8"))
    change(notebook)
    path.write_text(json.dumps(notebook))


def test_a_record_of_ours_is_known_as_one(record):
    assert is_ours(record, SIGNER)
    assert not is_ours(record, Signer(b"x" * 32))


def test_the_layout_of_its_json_does_not_count(record):
    changed(record, lambda notebook: None)
    assert is_ours(record, SIGNER)
    nbformat.write(nbformat.read(record, as_version=4), record)
    assert is_ours(record, SIGNER)


def a_source(notebook):
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    cell["source"] = ["import os\n", "os.remove('x')"]


def an_output(notebook):
    next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")["outputs"].pop()


def the_replies(notebook):
    notebook["metadata"]["codeact"]["replies"][0]["text"] = "<run_code>\nimport os\n</run_code>"


def a_cell_less(notebook):
    notebook["cells"].pop()


def no_signature(notebook):
    del notebook["metadata"]["codeact"]["signature"]


def an_odd_signature(notebook):
    notebook["metadata"]["codeact"]["signature"] = {"sha256": ["x"]}


def nothing_of_ours(notebook):
    notebook["metadata"] = {"codeact": "x"}


@pytest.mark.parametrize(
    "change", [a_source, an_output, the_replies, a_cell_less, no_signature, an_odd_signature, nothing_of_ours]
)
def test_a_record_that_somebody_changed_or_made_is_not_ours(record, change):
    changed(record, change)
    assert not is_ours(record, SIGNER)


def test_what_a_file_says_of_its_own_trust_counts_for_nothing(record):
    def claim(notebook):
        notebook["metadata"]["trusted"] = True
        for cell in notebook["cells"]:
            cell["metadata"]["trusted"] = True
        notebook["metadata"]["signature"] = "sha256:0"

    changed(record, a_source)
    changed(record, claim)
    assert not is_ours(record, SIGNER)


def test_a_signature_of_another_record_does_not_fit(record, tmp_path):
    other = Transcript()
    other.apply(RunStarted("r2", "Another.", "m", "", 1.0))
    path = tmp_path / "other.ipynb"
    write_notebook(path, other, signer=SIGNER)
    theirs = json.loads(path.read_text())["metadata"]["codeact"]["signature"]
    changed(record, lambda notebook: notebook["metadata"]["codeact"].update(signature=theirs))
    assert is_ours(path, SIGNER)
    assert not is_ours(record, SIGNER)


@pytest.mark.parametrize("text", ["", "[]", '{"nbformat": 3, "worksheets": []}', "{" * 100_000, "\x00"])
def test_what_is_no_notebook_is_an_error_of_one_line(tmp_path, text):
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    with pytest.raises(RecordError, match="is no notebook"):
        is_ours(path, SIGNER)


def test_what_cannot_be_read_is_an_error_and_a_pipe_in_its_place_holds_nobody(tmp_path):
    os.mkfifo(tmp_path / "pipe.ipynb")
    for name in ("none.ipynb", "pipe.ipynb", ""):
        with pytest.raises(RecordError, match="cannot be read"):
            is_ours(tmp_path / name, SIGNER)


def test_jupyter_does_not_trust_it(record, tmp_path):
    notary = NotebookNotary(data_dir=str(tmp_path))
    try:
        notebook = nbformat.read(record, as_version=4)
        assert not notary.check_signature(notebook)
        assert not notary.check_cells(notebook)
        text = json.loads(record.read_text("utf-8"))
        assert [cell for cell in text["cells"] if "trusted" in cell["metadata"]] == []
        assert "signature" not in text["metadata"]
    finally:
        notary.store.close()

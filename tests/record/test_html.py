"""A record that is exported or opened: nothing in it is marked as trusted, and what we write does nothing."""

from __future__ import annotations

import json
import re

import nbformat
import pytest
from active_pages import HOSTILE, Page
from nbconvert import HTMLExporter, MarkdownExporter
from nbformat.sign import MemorySignatureStore, NotebookNotary

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
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Knowledge,
    NoteReceived,
    Reply,
    RunEnded,
    RunStarted,
    TurnStarted,
)
from codeact_kernel.messages import Usage
from codeact_kernel.record import notebook_text, to_notebook
from codeact_kernel.transcript import Transcript

SCRIPT = "<script>document.title = 'owned'</script>"
TRUSTED = {"trusted": True, "isolated": True}
ACTIVE = {
    "text/html": SCRIPT,
    "application/javascript": "document.title = 'owned'",
    "text/markdown": SCRIPT,
    "image/svg+xml": f"<svg>{SCRIPT}</svg>",
    "text/plain": SCRIPT,
}
BLOCK = CodeBlock(f"print({SCRIPT!r})", id="b1")
REFUSED = CodeBlock(SCRIPT)
AGENT = AgentBlock(SCRIPT)


def record(text, *outputs):
    """The notebook of a run in which everybody says the same."""
    transcript = Transcript()
    reply = Reply(1, text, (Prose(text), BLOCK, REFUSED))
    for event in (
        RunStarted("r", text, text, text, 1.0, text),
        TurnStarted(1, 1.0),
        BlockQueued(1, "b1", BLOCK, 1.0),
        BlockStarted("b1", "main", 1.0),
        *(BlockOutput("b1", output) for output in outputs),
        BlockFinished(BlockResult("b1", BLOCK, Outcome("error", text, (text,)), (), 1.0, 1.0, 2.0)),
        Appended(1, reply),
        BlockQueued(1, text, AGENT, 1.0),
        BlockStarted(text, "agent", 1.0),
        NoteReceived(text, text),
        Appended(1, Knowledge(text, text)),
        RunEnded("failed", text, Usage(), 1, 3.0, text),
    ):
        transcript.apply(event)
    return nbformat.reads(notebook_text(to_notebook(transcript)), as_version=4)


def exported(notebook, exporter):
    """What of the exported page is the notebook's, and not the page's own."""
    body, _ = exporter.from_notebook_node(notebook)
    page = Page()
    page.feed(body[body.index("<main") : body.index("</main>")])
    (top,) = (cell for cell in notebook.cells if cell.metadata.codeact.kind == "summary")
    (picture,) = re.findall('<img alt="[a-z ]*" src="([^"]*)">', top.source)
    page.found = [what for what in page.found if what != f"img src={picture.lower()}"]
    return page


@pytest.fixture(scope="module")
def exporter():
    return HTMLExporter()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_of_what_models_and_strangers_say_nothing_is_active_in_an_exported_page(text, exporter):
    assert exported(record(text, StreamOutput("stdout", text)), exporter).found == []


def test_the_test_would_see_it(exporter):
    notebook = record("x")
    notebook.cells[0].source = SCRIPT
    assert exported(notebook, exporter).found == ["script"]


def test_outputs_are_outputs_and_an_export_that_sanitizes_has_none_that_does_something():
    outputs = [DisplayOutput(dict(ACTIVE), dict(TRUSTED)), ResultOutput(dict(ACTIVE), dict(TRUSTED), 1)]
    notebook = record("x", *outputs)
    cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert [output.output_type for output in cell.outputs] == ["display_data", "execute_result"]
    for output in cell.outputs:
        assert output.data["text/html"] == SCRIPT
        assert output.metadata == {"isolated": True}
    assert exported(notebook, HTMLExporter()).found != []
    assert exported(notebook, HTMLExporter(sanitize_html=True)).found == []


def test_jupyter_does_not_trust_it():
    notebook = record("x", DisplayOutput(dict(ACTIVE), dict(TRUSTED)))
    assert "trusted" not in json.dumps(notebook)
    notary = NotebookNotary(secret=b"k", store_factory=MemorySignatureStore)
    assert not notary.check_signature(notebook)
    assert not notary.check_cells(notebook)
    notary.mark_cells(notebook, notary.check_signature(notebook))
    assert {cell.metadata.trusted for cell in notebook.cells if cell.cell_type == "code"} == {False}


def test_of_outputs_only_colours_are_kept():
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\x9b2J\x1bc\x07"
    notebook = record(
        evil,
        StreamOutput("stdout", evil),
        ResultOutput({"text/plain": evil}, {}, 1),
        ErrorOutput(evil, evil, (evil, evil)),
    )
    cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
    stream, result, error = cell.outputs
    texts = [stream.text, result.data["text/plain"], error.ename, error.evalue, *error.traceback]
    assert set(texts) == {"\x1b[31mred\x1b[0m2J"}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            assert not set(cell.source) & set("\x1b\x07\x9b")
    written = nbformat.writes(notebook)
    assert "\x1b" not in written
    assert "\x9b" not in notebook_text(notebook)
    assert MarkdownExporter().from_notebook_node(notebook)

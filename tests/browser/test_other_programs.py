"""What others have made for notebooks works on a record."""

from __future__ import annotations

import json
import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter, SlidesExporter
from stories import T0, opened, ran

from codeact_kernel.blocks import CodeBlock, ErrorOutput, Prose, StreamOutput
from codeact_kernel.events import Appended, NoteReceived, Reply, RunEnded
from codeact_kernel.messages import Usage
from codeact_kernel.record import notebook_text, to_notebook

pytestmark = pytest.mark.browser

SET, FAILS, HANGS, SHOWS = (
    CodeBlock("x = 6", "set"),
    CodeBlock("1 / 0", "fails"),
    CodeBlock("import time; time.sleep(1e6)", "hangs"),
    CodeBlock("x * 7", "shows"),
)


@pytest.fixture
def record(tmp_path):
    """A record whose blocks need no tools, with one that failed and one that would never end."""
    reply = Reply(1, "…", (Prose("I *look*."), SET, FAILS, HANGS, SHOWS))
    transcript = opened(
        *ran(SET, name="set"),
        *ran(FAILS, ErrorOutput("ZeroDivisionError", "division by zero"), name="fails", status="error"),
        *ran(HANGS, StreamOutput("stdout", "…"), name="hangs", status="timeout"),
        *ran(SHOWS, name="shows"),
        Appended(1, reply),
        NoteReceived("user", "Go on."),
        RunEnded("answered", "42", Usage(), 1, T0 + 9),
    )
    path = tmp_path / "run.ipynb"
    path.write_text(notebook_text(to_notebook(transcript)), "utf-8")
    return path


def shown(notebook):
    return [cell.outputs[0].data["text/plain"] for cell in notebook.cells if cell.source == SHOWS.code]


def program(*arguments, cwd):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nbclient_runs_it_from_top_to_bottom(record):
    notebook = nbformat.read(record, as_version=4)
    nbformat.validate(notebook)
    NotebookClient(notebook, kernel_name="codeact", timeout=60).execute()
    assert shown(notebook) == ["42"]


def test_papermill_runs_it_and_keeps_its_metadata(record, tmp_path):
    notebook = json.loads(record.read_text())
    # It runs what follows a block that may fail, and says in the end that one has failed, whatever its tags say.
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["source"] != [FAILS.code]]
    record.write_text(json.dumps(notebook))
    program("papermill", record, "out.ipynb", "--kernel", "codeact", "--no-progress-bar", cwd=tmp_path)
    made = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    nbformat.validate(made)
    assert shown(made) == ["42"]
    assert made.metadata.codeact.task == "Do it"


def test_nbconvert_makes_pages_and_slides_of_it(record):
    notebook = nbformat.read(record, as_version=4)
    for exporter in (HTMLExporter(), SlidesExporter()):
        body, _ = exporter.from_notebook_node(notebook)
        assert "data:image/svg+xml;base64," in body
        assert "<em>look</em>" in body


def test_jupytext_writes_it_as_a_program_and_reads_it_back(record, tmp_path):
    program("jupytext", "--to", "py:percent", record, cwd=tmp_path)
    assert "# %%" in (tmp_path / "run.py").read_text()
    program("jupytext", "--to", "ipynb", "--output", "back.ipynb", "run.py", cwd=tmp_path)
    before, after = (nbformat.read(path, as_version=4) for path in (record, tmp_path / "back.ipynb"))
    code = [[cell.source for cell in book.cells if cell.cell_type == "code"] for book in (before, after)]
    assert code[0] == code[1]


def test_nbdime_shows_what_differs(record, tmp_path):
    other = json.loads(record.read_text())
    for cell in other["cells"]:
        if cell["source"] == ["x = 6"]:
            cell["source"] = ["x = 5"]
    (tmp_path / "other.ipynb").write_text(json.dumps(other))
    assert program("nbdime", "diff", "--no-color", record, record, cwd=tmp_path) == ""
    told = program("nbdime", "diff", "--no-color", record, "other.ipynb", cwd=tmp_path)
    assert "-  x = 6" in told
    assert "+  x = 5" in told

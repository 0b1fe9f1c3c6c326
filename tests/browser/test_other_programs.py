"""What others have made for notebooks works on a record."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import nbformat
import pytest
from lab import PATIENCE
from nbclient import NotebookClient
from nbconvert import HTMLExporter, LatexExporter, SlidesExporter
from stories import T0, opened, ran

from codeact_kernel.blocks import CodeBlock, ErrorOutput, Prose, StreamOutput
from codeact_kernel.events import Appended, NoteReceived, Reply, RunEnded
from codeact_kernel.messages import Usage
from codeact_kernel.record import html_page, notebook_text, to_notebook

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


def run(*arguments, cwd):
    command = [sys.executable, "-W", "ignore", "-m", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


def program(*arguments, cwd):
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nbclient_runs_it_from_top_to_bottom(record):
    notebook = nbformat.read(record, as_version=4)
    nbformat.validate(notebook)
    NotebookClient(notebook, kernel_name="codeact", timeout=60).execute()
    assert shown(notebook) == ["42"]


def test_papermill_runs_what_follows_a_block_that_failed_and_says_in_the_end_that_one_has(record, tmp_path):
    arguments = "--kernel", "codeact", "--no-progress-bar"
    done = run("papermill", record, "out.ipynb", *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert "ZeroDivisionError: division by zero" in done.stderr
    made = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    nbformat.validate(made)
    assert shown(made) == ["42"]
    assert made.metadata.codeact.task == "Do it"
    tags = {cell.source: cell.metadata.get("tags") for cell in made.cells if cell.cell_type == "code"}
    assert tags[FAILS.code] == ["raises-exception"]

    notebook = json.loads(record.read_text())
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["source"] != [FAILS.code]]
    record.write_text(json.dumps(notebook))
    program("papermill", record, "out.ipynb", *arguments, cwd=tmp_path)


def test_nbconvert_makes_pages_slides_and_latex_of_it(record):
    assert shutil.which("pandoc"), "this needs pandoc: apt-get install pandoc"
    notebook = nbformat.read(record, as_version=4)
    for exporter in (HTMLExporter(), SlidesExporter()):
        body, _ = exporter.from_notebook_node(notebook)
        assert "data:image/svg+xml;base64," in body
        assert "<em>look</em>" in body
    body, _ = LatexExporter().from_notebook_node(notebook)
    assert "\\section{Do it}" in body
    assert "\\emph{look}" in body
    assert "\\subsection{Answer}" in body


def test_a_browser_prints_its_pages_as_pdf(record, page):
    sheet = page.context.browser.new_page()
    notebook = nbformat.read(record, as_version=4)
    for body in (HTMLExporter().from_notebook_node(notebook)[0], html_page(notebook)):
        sheet.set_content(body, wait_until="commit")
        assert sheet.pdf().startswith(b"%PDF-")
    sheet.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", ["lab/tree", "notebooks"], ids=["JupyterLab", "Notebook 7"])
def test_all_its_cells_are_shown(record, server, page, place):
    from playwright.sync_api import expect

    shutil.copy(record, server.folder / "record.ipynb")
    cells = json.loads(record.read_text())["cells"]
    sheet = page.context.browser.new_page()
    sheet.goto(f"{server.url}{place}/record.ipynb?token=secret", timeout=PATIENCE * 1000)
    shown = sheet.locator(".jp-Notebook .jp-Cell")
    expect(shown).to_have_count(len(cells))
    expect(sheet.locator(".jp-Notebook h1")).to_contain_text("Do it")
    expect(sheet.locator(".jp-Notebook h2")).to_contain_text("Answer")
    expect(sheet.locator(".jp-Notebook em").first).to_have_text("look")
    expect(sheet.get_by_text("ZeroDivisionError").first).to_be_visible()
    picture = sheet.locator(".jp-Notebook img[alt='which block ran when']")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") > 0
    sheet.close()


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

"""Every notebook runs from top to bottom, in our kernel and in the stock one, and shows what it holds."""

from __future__ import annotations

import re

import nbformat
import pytest
from doc_pages import ROOT
from nbclient import NotebookClient

pytestmark = [pytest.mark.kernel, pytest.mark.filterwarnings("ignore")]

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.name for path in NOTEBOOKS])


def printed(cell):
    """What a cell prints, as one text; anything else that it shows is told by its type."""
    return "".join(output.get("text", f"<{output.output_type}>") for output in cell.outputs)


def test_there_is_a_notebook():
    assert NOTEBOOKS


@pytest.mark.parametrize("kernel", ["codeact", "python3"])
@every_notebook
def test_a_notebook_runs_without_an_error_and_shows_what_it_holds(path, kernel, tmp_path):
    held = nbformat.read(path, as_version=4)
    ran = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(ran, kernel_name=kernel, timeout=120, resources=where).execute()
    for before, after in zip(held.cells, ran.cells, strict=True):
        if before.cell_type == "code":
            assert printed(after) == printed(before), f"cell {before.id}"


@every_notebook
def test_a_notebook_is_as_it_should_be_on_disk(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "codeact"
    ids = [cell.id for cell in notebook.cells]
    assert all(re.fullmatch(r"[a-z][a-z-]*", i) for i in ids), "ids are words, not what a tool made up"
    assert all(cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")

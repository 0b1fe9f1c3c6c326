"""`codeact trust`: what Jupyter trusts, and for how long."""

from __future__ import annotations

import json

import nbformat
import pytest
from nbformat.sign import NotebookNotary


@pytest.fixture
def is_trusted(tmp_path, monkeypatch):
    """Asks the user's Jupyter, as JupyterLab does when it opens a notebook."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))

    def ask(path):
        notary = NotebookNotary()
        try:
            return notary.check_signature(nbformat.read(path, as_version=4))
        finally:
            notary.store.close()

    return ask


@pytest.mark.kernel
def test_jupyter_trusts_a_record_once_its_user_says_so_and_until_it_changes(
    codeact, scripted, block, place, is_trusted
):
    assert codeact("run", *scripted([block("print(1)"), "One."]), "--run-dir", "r", "Count.").code == 0
    path = place / "r" / "run.ipynb"
    inner = place / "r" / "agents" / "scout" / "run.ipynb"
    inner.parent.mkdir(parents=True)
    inner.write_text(path.read_text())
    assert not is_trusted(path)
    said = codeact("trust", "r")
    assert (said.code, said.out) == (0, "")
    assert "r/run.ipynb and 1 of its sub-agents as it is now" in said.line
    assert "may do in your browser what it likes" in said.line
    assert is_trusted(path)
    assert is_trusted(inner)
    assert "trusted" not in path.read_text()

    notebook = json.loads(path.read_text())
    notebook["cells"][-1]["source"] = ["## Answer"]
    path.write_text(json.dumps(notebook))
    assert not is_trusted(path)
    said = codeact("trust", path)
    assert said.code == 2
    assert "say --trust-record if its outputs may do what they like" in said.line
    assert not is_trusted(path)
    assert codeact("trust", path, "--trust-record").code == 0
    assert is_trusted(path)
    assert codeact("trust", "none").code == 2

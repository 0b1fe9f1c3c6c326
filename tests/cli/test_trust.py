"""`codeact trust`: what Jupyter trusts, and for how long."""

from __future__ import annotations

import json

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from codeact_kernel.blocks import Prose
from codeact_kernel.events import Appended, Reply, RunEnded, RunStarted, Task, TurnStarted
from codeact_kernel.messages import Usage
from codeact_kernel.record import write_notebook
from codeact_kernel.signing import host_signer
from codeact_kernel.transcript import Transcript


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


@pytest.fixture
def record(place):
    """A run's notebook, and beside it that of its sub-agent, as this installation writes them."""
    paths = place / "r" / "run.ipynb", place / "r" / "agents" / "scout" / "run.ipynb"
    for path in paths:
        path.parent.mkdir(parents=True)
        transcript = Transcript()
        for event in (
            RunStarted("r", "Count.", "m", "s", 1.0),
            Appended(0, Task("Count.")),
            TurnStarted(1, 1.0),
            Appended(1, Reply(1, "One.", (Prose("One."),))),
            RunEnded("answered", "One.", Usage(), 1, 2.0),
        ):
            transcript.apply(event)
        assert write_notebook(path, transcript, signer=host_signer()) is None
    return paths


def test_jupyter_trusts_a_record_once_its_user_says_so_and_until_it_changes(codeact, record, is_trusted):
    path, inner = record
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

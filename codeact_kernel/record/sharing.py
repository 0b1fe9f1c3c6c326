"""A record to hand on: without what blocks have put out.

Comes in: a notebook that `to_notebook` made. Goes out: the same story, from which no output can be read.
"""

from __future__ import annotations

from typing import Any

from codeact_kernel.record.notebook import Notebook

_OF_BLOCKS = ("run_code_result", "agent_result", "running")
"""What the model reads that holds outputs."""
_QUOTES = ("error", "file", "truncated", "late", "missing")
"""What of a block's metadata goes with its outputs."""


def without_outputs(notebook: Notebook) -> Notebook:
    """Take out what blocks have put out: in cells, and in what the model has read of it.

    Texts of the model, notes and the answer stay, whatever they quote; so do replies, so that it can be replayed and
    forked. It carries no signature.

    Args:
        notebook: The notebook; it is not changed.
    """
    about = notebook["metadata"]["codeact"]
    context = [_unread(entry) for entry in about["context"]]
    told = {name: value for name, value in about.items() if name != "signature"} | {"context": context}
    cells = [_bare(cell) for cell in notebook["cells"] if not _leads_to_outputs(cell)]
    return {**notebook, "metadata": {**notebook["metadata"], "codeact": told}, "cells": cells}


def _bare(cell: dict[str, Any]) -> dict[str, Any]:
    if cell["cell_type"] != "code":
        return cell
    about = {name: value for name, value in cell["metadata"]["codeact"].items() if name not in _QUOTES}
    return {
        **cell,
        "metadata": {**cell["metadata"], "codeact": about},
        "outputs": [],
        "execution_count": None,
    }


def _unread(entry: dict[str, Any]) -> dict[str, Any]:
    if entry["type"] != "Observation":
        return entry
    return {**entry, "reports": [report for report in entry["reports"] if report["kind"] not in _OF_BLOCKS]}


def _leads_to_outputs(cell: dict[str, Any]) -> bool:
    return cell["metadata"]["codeact"]["kind"] == "beyond" and "](outputs/" in cell["source"]

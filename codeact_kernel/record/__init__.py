"""The record: what a run leaves behind, and what a person watches while it goes on.

Comes in: events and the transcript. Goes out: the notebook and the journal.
"""

from __future__ import annotations

from codeact_kernel.record.cells import SCHEMA
from codeact_kernel.record.edits import edits
from codeact_kernel.record.journal import Journal, write_journal
from codeact_kernel.record.notebook import Notebook, NotebookSettings, notebook_text, to_notebook
from codeact_kernel.record.outputs import CellOutput, CellOutputs
from codeact_kernel.record.overview import Overview
from codeact_kernel.record.pages import html_page, markdown_page, whole_page
from codeact_kernel.record.places import AGENTS, slug
from codeact_kernel.record.prose import inert
from codeact_kernel.record.reading import JournalFollower, JournalRead, read_journal
from codeact_kernel.record.rebuilding import notebook_events, read_notebook
from codeact_kernel.record.recorder import Recorder, snapshot
from codeact_kernel.record.seal import Seal
from codeact_kernel.record.sharing import without_outputs
from codeact_kernel.record.summary import SUMMARY, Summary
from codeact_kernel.record.trust import is_ours, trust_in_jupyter
from codeact_kernel.record.writing import NotebookFile, write_notebook

__all__ = [
    "AGENTS",
    "SCHEMA",
    "SUMMARY",
    "CellOutput",
    "CellOutputs",
    "Journal",
    "JournalFollower",
    "JournalRead",
    "Notebook",
    "NotebookFile",
    "NotebookSettings",
    "Overview",
    "Recorder",
    "Seal",
    "Summary",
    "edits",
    "html_page",
    "inert",
    "is_ours",
    "markdown_page",
    "notebook_events",
    "notebook_text",
    "read_journal",
    "read_notebook",
    "slug",
    "snapshot",
    "to_notebook",
    "trust_in_jupyter",
    "whole_page",
    "without_outputs",
    "write_journal",
    "write_notebook",
]

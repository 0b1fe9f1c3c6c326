"""A transcript as a Jupyter notebook.

Comes in: a transcript, at any moment of a run. Goes out: a notebook of format 4.5, valid at that moment, and
its text. Cells hold what a reader wants to see; what only a machine wants (the raw replies for a replay of
the model, the context as the model read it, notes, usage) is in the notebook's metadata under the key
`codeact`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from codeact_kernel.errors import RecordError
from codeact_kernel.events import Entry, Knowledge, Observation, Reply, Task, to_json
from codeact_kernel.record.cells import (
    SCHEMA,
    CellName,
    Placed,
    RunCells,
    blocks_of,
    summary_cell,
    usage_json,
)
from codeact_kernel.record.clean import clean
from codeact_kernel.record.layout import in_lines, laid_out
from codeact_kernel.record.outputs import fold_outputs
from codeact_kernel.record.overview import Overview
from codeact_kernel.runfiles import open_plain
from codeact_kernel.transcript import RunRecord, Settled, Transcript

Notebook = dict[str, Any]
Lists = dict[str, list[Placed]]
LISTS = ("cells", "replies", "context", "notes")
"""What of a notebook grows as long as the run goes on: its cells, and three lists of the metadata."""


@dataclass(frozen=True, slots=True)
class NotebookSettings:
    """What the user may set."""

    stream_limit: int = 200_000
    """Characters of stdout and stderr that one cell keeps; ours, so that JupyterLab stays quick."""


def to_notebook(transcript: Transcript, settings: NotebookSettings | None = None) -> Notebook:
    """Write a transcript as a notebook.

    Args:
        transcript: All that happened so far. It must not change meanwhile.
        settings: How much a cell keeps.

    Returns:
        The notebook as plain JSON values.
    """
    frame, lists = framed(transcript, settings)
    cells, *others = ([item for _, items in placed for item in items] for placed in lists.values())
    frame["metadata"]["codeact"] |= dict(zip(LISTS[1:], others, strict=True))
    return {**frame, "cells": cells}


def framed(
    transcript: Transcript, settings: NotebookSettings | None = None, before: Overview | None = None
) -> tuple[Notebook, Lists]:
    """Write a transcript as a notebook whose long lists stand beside it.

    Args:
        transcript: As for `to_notebook`.
        settings: As for `to_notebook`.
        before: Counts what was taken out of the transcript.

    Returns:
        The notebook without its cells and without what of `codeact` is in `LISTS`; and those, each with what it holds
        of each place, in order.
    """
    cells = [placed for cells in _runs(transcript.runs, settings) for placed in cells.all()]
    overview = before.copy() if before else Overview.of(transcript)
    overview.add(transcript.runs)
    if overview.replies or any(run.end for run in transcript.runs):
        cells.insert(1, ((0, -0.5), [summary_cell(overview.markdown(transcript))]))
    frame = {"nbformat": 4, "nbformat_minor": 5, "metadata": _metadata(transcript)}
    return frame, {"cells": cells, **_about_entries(transcript.entries, transcript.taken, transcript.runs)}


def settled_lists(settled: Settled, settings: NotebookSettings | None = None) -> Lists:
    """What of the long lists was taken out of a transcript.

    Args:
        settled: What was taken out.
        settings: As for `to_notebook`.

    Returns:
        As for `framed`.
    """
    cells = [placed for cells in _runs(settled.runs, settings) for placed in cells.turns()]
    return {"cells": cells, **_about_entries(settled.entries, settled.first, settled.runs)}


def _runs(runs: Sequence[RunRecord], settings: NotebookSettings | None) -> list[RunCells]:
    settings = settings or NotebookSettings()
    blocks = [blocks_of(run) for run in runs]
    folded = iter(
        fold_outputs([record.outputs.outputs(record.file) for records in blocks for record in records])
    )
    names: Counter[CellName] = Counter()
    return [
        RunCells(run, [next(folded) for _ in records], settings.stream_limit, names)
        for run, records in zip(runs, blocks, strict=True)
    ]


def notebook_text(notebook: Notebook) -> str:
    """The text of a notebook's file, as Jupyter itself lays it out.

    Args:
        notebook: What `to_notebook` made.
    """
    return laid_out({**notebook, "cells": [in_lines(cell) for cell in notebook["cells"]]}) + "\n"


def parsed(path: Path) -> Notebook:
    """What a notebook's file holds, whoever wrote it.

    Args:
        path: The file.

    Raises:
        RecordError: If it cannot be read, or is no notebook of format 4.
    """
    # Beside JupyterLab its import takes more than a second: only where a notebook is read.
    import nbformat.v4

    try:
        with open_plain(path) as file:
            notebook = dict(nbformat.v4.reads_json(file.read().decode()))
        if not isinstance(notebook["metadata"], dict):
            raise TypeError("its metadata are no object")
    except OSError as error:
        raise RecordError(f"the record {path} cannot be read: {error.strerror or error}") from error
    except Exception as error:
        raise RecordError(f"{path} is no notebook of format 4: {error}") from error
    return notebook


def _metadata(transcript: Transcript) -> dict[str, Any]:
    kernel = transcript.runs[-1].now.kernel if transcript.runs else ""
    version = re.match(r"Python (\d+(?:\.\d+)*)", kernel)
    language = {
        "name": "python",
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "pygments_lexer": "ipython3",
        "codemirror_mode": {"name": "ipython", "version": 3},
        "nbconvert_exporter": "python",
    }
    return {
        "kernelspec": {"name": "codeact", "display_name": "CodeAct (Python 3)", "language": "python"},
        "language_info": language | ({"version": version[1]} if version else {}),
        "codeact": _about(transcript),
    }


def _about(transcript: Transcript) -> dict[str, Any]:
    """What is told of the latest run, and of all replies so far; a chat has several runs."""
    about: dict[str, Any] = {"schema": SCHEMA, "usage": usage_json(transcript.usage)}
    if transcript.runs:
        run = transcript.runs[-1]
        start, now, end = run.start, run.now, run.end
        about |= {"run_id": start.run_id, "task": start.task, "model": now.model, "kernel": now.kernel}
        about |= {"sandbox": now.sandbox, "options": now.options}
        about |= {"system": start.system, "started": start.at, "turns": run.turn_count}
        if end:
            about |= {"stop_reason": end.stop, "answer": end.answer, "message": end.message, "ended": end.at}
    if transcript.audit is not None:
        about["audit"] = {"lines": transcript.audit.lines, "head": transcript.audit.head}
    return dict(clean(about))


def _about_entries(entries: Sequence[Entry], first: int, runs: Sequence[RunRecord]) -> Lists:
    placed = [((0, first + at), entry) for at, entry in enumerate(entries)]
    notes: list[Placed] = []
    for run in runs:
        for turn in run.turns:
            told = [
                {"run_id": run.start.run_id, "turn": turn.number, "from": note.sender, "text": note.text}
                for note in turn.notes
            ]
            if told:
                notes.append(((run.number, turn.place), clean(told)))
    return {
        "replies": [(place, [_reply(entry)]) for place, entry in placed if isinstance(entry, Reply)],
        "context": [(place, [_context(entry)]) for place, entry in placed],
        "notes": notes,
    }


def _reply(reply: Reply) -> dict[str, Any]:
    """A raw reply, as a replay of the model gives it again."""
    calls = [asdict(call) for call in reply.calls]
    volatile = {"started": reply.started, "ended": reply.ended, "usage": usage_json(reply.usage)}
    return dict(clean({"text": reply.text, "finish": "stop", "calls": calls, "volatile": volatile}))


def _context(entry: Entry) -> dict[str, Any]:
    """An entry of the context; a reply is only named, since its text is among the replies."""
    match entry:
        case Reply():
            return {"type": "Reply", "turn": entry.turn}
        case Task() | Observation() | Knowledge():
            return dict(clean(to_json(entry)))

"""One run as the cells of a notebook.

Comes in: a run of the transcript. Goes out: its cells as nbformat 4.5 has them: the task as a heading, prose
as markdown, one code cell a block with its outputs and times, notes and compactions, and at the end the answer
with a line of summary.

Everything of ours in a cell's metadata stands under the key `codeact`; what differs between two recordings of
the same run stands in its `volatile`, so that a diff can leave it out. Nothing marks a cell as trusted: whether
Jupyter lets outputs do something is for the user and Jupyter to say. Cell ids come from the run, the turn
and the block, so that they are the same in every version of the file.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from codeact_kernel.blocks import AgentBlock, Block, CodeBlock, Part, Prose, format_duration
from codeact_kernel.events import RunEnded, RunStarted
from codeact_kernel.messages import Usage
from codeact_kernel.record.asides import beyond, compaction, note
from codeact_kernel.record.clean import clean, clean_text
from codeact_kernel.record.outputs import CellOutput, cap_streams
from codeact_kernel.record.prose import inert
from codeact_kernel.transcript import BlockRecord, RunRecord, Turn

Cell = dict[str, Any]
CellName = tuple[str, str, str]
"""The run, the turn and what it is in it."""

Place = tuple[int, float]
"""Where something stands in the notebook: for cells the number of the run, and the place of the turn in it."""
Placed = tuple[Place, list[dict[str, Any]]]
"""What of a list has one place."""

SCHEMA = 1
"""Version of what stands under `codeact`."""

_TITLE = 80
"""Characters of a task that are its heading; ours, so that a table of contents stays readable."""

_STOPS = {"answered": "Answered", "limit": "Stopped at a limit", "cancelled": "Cancelled", "failed": "Failed"}

_UNREPEATABLE = ("timeout", "cancelled", "skipped", "rejected", "died")
"""What of a run cannot be executed again: it did not run, or it would not end, or take the kernel with it."""


class RunCells:
    """The cells of one run.

    Args:
        run: The run.
        folded: The outputs of each of its blocks, by their place in `blocks_of(run)`.
        limit: Characters of streams that a cell keeps.
        names: How often each name of a cell was used so far in this notebook.
    """

    def __init__(
        self, run: RunRecord, folded: Sequence[list[CellOutput]], limit: int, names: Counter[CellName]
    ) -> None:
        self._run = run
        self._outputs = {id(record): made for record, made in zip(blocks_of(run), folded, strict=True)}
        self._limit = limit
        self._names = names

    def all(self) -> Iterator[Placed]:
        """The heading, the turns that the run holds, and its end, each with its place."""
        run = self._run
        yield (run.number, -1), [self._task()]
        yield from self.turns()
        if run.end:
            yield (run.number, math.inf), [self._end(run.end)]

    def turns(self) -> Iterator[Placed]:
        """The turns alone."""
        for turn in self._run.turns:
            yield (self._run.number, turn.place), self._turn(turn)

    def _task(self) -> Cell:
        start = self._run.start
        text = start.task.strip()
        title = text.partition("\n")[0].lstrip("# ")
        if len(title) > _TITLE:
            title = title[:_TITLE].rstrip() + "…"
        heading = f"# {inert(title)}"
        source = heading if text == title else f"{heading}\n\n{inert(text)}"
        return self._cell("markdown", source, "task", volatile={"started": start.at}, model=start.model)

    def _turn(self, turn: Turn) -> list[Cell]:
        """The parts of a reply in order; blocks whose reply still streams have no part yet and come last."""
        cells = []
        parts = parts_of(self._run, turn)
        ran = _records(parts, turn.blocks)
        for at, part in enumerate(parts):
            if isinstance(part, Prose):
                if part.text.strip():
                    cells.append(
                        self._cell("markdown", inert(part.text.strip()), "prose", turn, f"prose {at}")
                    )
            elif isinstance(part, CodeBlock | AgentBlock):
                record = ran.get(at)
                cells += self._block(turn, record) if record else [self._refused(turn, part, at)]
        shown = {id(record) for record in ran.values()}
        for record in turn.blocks:
            if id(record) not in shown:
                cells += self._block(turn, record)
        if cells and turn.reply:
            cells[0]["metadata"]["codeact"].setdefault("volatile", {})["usage"] = usage_json(turn.reply.usage)
        notes, known = map(note, turn.notes), map(compaction, turn.compactions)
        cells += [self._cell("markdown", text, "note", turn, f"note {at}") for at, text in enumerate(notes)]
        cells += [
            self._cell("markdown", text, "compaction", turn, f"compaction {at}")
            for at, text in enumerate(known)
        ]
        return cells

    def _block(self, turn: Turn, record: BlockRecord) -> list[Cell]:
        """A block's cell, and where there is more of it than the cell shows, one that leads there."""
        cell, more = self._block_cell(turn, record), beyond(record)
        if not more:
            return [cell]
        return [cell, self._cell("markdown", more, "beyond", turn, f"{record.id} beyond")]

    def _block_cell(self, turn: Turn, record: BlockRecord) -> Cell:
        outputs, left_out = cap_streams(self._outputs[id(record)], self._limit)
        result = record.result
        status = result.status if result else "waiting" if record.started is None else "running"
        cell = self._cell("code", _source(record.id, record.block), _kind(record.block), turn, record.id)
        cell["outputs"] = outputs
        cell["execution_count"] = result.outcome.execution_count if result else None
        about = cell["metadata"]["codeact"]
        about.update(id=clean_text(record.id), status=status, attributes=_attributes(record.block))
        about["volatile"] = _times(record)
        found: dict[str, Any] = {"lane": record.lane, "late": record.late}
        found |= {"truncated": left_out.characters, "file": record.file}
        if result:
            outcome = result.outcome
            found.update(error=outcome.error, notes=outcome.notes, missing=outcome.missing)
        about.update((key, clean(value)) for key, value in found.items() if value)
        if tags := _tags(record.block, status):
            cell["metadata"]["tags"] = tags
        if execution := _execution(record):
            cell["metadata"]["execution"] = execution
        return cell

    def _refused(self, turn: Turn, part: Block, at: int) -> Cell:
        """A block that was never launched: no code cell, because it is no part of what ran.

        Its type is said: an exporter takes a raw cell that says none for its own format, and so for HTML.
        """
        cell = self._cell("raw", _source(part.id or "", part), _kind(part), turn, f"refused {at}")
        cell["metadata"]["codeact"].update(status="refused", attributes=_attributes(part))
        cell["metadata"]["raw_mimetype"] = "text/plain"
        return cell

    def _end(self, end: RunEnded) -> Cell:
        title = "Answer" if end.answer is not None else _STOPS[end.stop]
        body = "\n\n".join(text for text in (end.answer, end.message) if text)
        summary = f"*{_summary(self._run.start, end)}*"
        source = "\n\n".join(text for text in (f"## {title}", inert(body.strip()), "---", summary) if text)
        volatile = {"ended": end.at, "usage": usage_json(end.usage)}
        how: dict[str, Any] = {"stop_reason": end.stop, "message": end.message, "turns": end.turns}
        return self._cell("markdown", source, "answer", volatile=volatile, **how)

    def _cell(
        self, cell_type: str, source: str, kind: str, turn: Turn | None = None, what: str = "", **more: Any
    ) -> Cell:
        run_id = self._run.start.run_id
        about = {"schema": SCHEMA, "run": clean_text(run_id), "kind": kind, **clean(more)}
        source = clean_text(source)
        if turn:
            about |= {"turn": turn.number, "mark": mark(source)}
        name = (run_id, str(turn.number) if turn else "", what or kind)
        self._names[name] += 1
        return {
            "id": _cell_id(name, self._names[name]),
            "cell_type": cell_type,
            "metadata": {"codeact": about},
            "source": source,
        }


def mark(source: str) -> str:
    """What tells whether a cell's source is the one that was written.

    Args:
        source: The source.
    """
    return sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def summary_cell(source: str) -> Cell:
    """The cell at the top of a notebook.

    Args:
        source: What it tells.
    """
    about = {"schema": SCHEMA, "kind": "summary"}
    name = ("", "", "summary")
    return {
        "id": _cell_id(name, 1),
        "cell_type": "markdown",
        "metadata": {"codeact": about},
        "source": source,
    }


def blocks_of(run: RunRecord) -> list[BlockRecord]:
    """The blocks of a run, in the order in which they were queued."""
    return [record for turn in run.turns for record in turn.blocks]


def usage_json(usage: Usage) -> dict[str, Any]:
    """A usage as plain JSON."""
    return dict(clean(asdict(usage)))


def parts_of(run: RunRecord, turn: Turn) -> list[Part]:
    """The parts of a reply that have cells, with the pieces of one stretch of prose joined.

    Args:
        run: The run; its answer has a cell of its own.
        turn: A turn of it.
    """
    parts: list[Part] = []
    for part in turn.reply.parts if turn.reply else ():
        if isinstance(part, Prose) and parts and isinstance(parts[-1], Prose):
            parts[-1] = Prose(parts[-1].text + part.text)
        else:
            parts.append(part)
    if parts and _is_answer(run, turn, parts[-1]):
        parts.pop()
    return parts


def _is_answer(run: RunRecord, turn: Turn, part: Part) -> bool:
    if turn.place + 1 != run.turn_count or not isinstance(part, Prose) or run.end is None:
        return False
    return run.end.answer is not None and run.end.answer.strip() == part.text.strip()


def _records(parts: Sequence[Part], records: Sequence[BlockRecord]) -> dict[int, BlockRecord]:
    """Which block came of which part of a reply, by the part's place.

    A hook may have changed a block before it ran, so where there are as many blocks as parts the order tells;
    else a part is the first block that reads as it does.
    """
    blocks = [(at, part) for at, part in enumerate(parts) if isinstance(part, CodeBlock | AgentBlock)]
    if len(blocks) == len(records):
        return {at: record for (at, _), record in zip(blocks, records, strict=True)}
    waiting = list(records)
    found = {}
    for at, part in blocks:
        place = next((place for place, record in enumerate(waiting) if record.block == part), None)
        if place is not None:
            found[at] = waiting.pop(place)
    return found


def _kind(block: Block) -> str:
    return "run_code" if isinstance(block, CodeBlock) else "run_agent"


def _source(name: str, block: Block) -> str:
    if isinstance(block, CodeBlock):
        return block.code
    lines = [f"run_agent {name}".strip(), *block.task.splitlines()]
    return "\n".join(f"# {line}".rstrip() for line in lines)


def _attributes(block: Block) -> dict[str, Any]:
    """The attributes as the model gave them; of a sub-agent also its task, word for word."""
    given = {key: value for key, value in asdict(block).items() if key != "code" and value is not None}
    return dict(clean(given))


def _times(record: BlockRecord) -> dict[str, Any]:
    times: dict[str, Any] = {"queued": record.queued, "started": record.started}
    if record.result:
        times.update(ended=record.result.ended, duration=round(record.result.duration, 6))
    return {key: value for key, value in times.items() if value is not None}


def _tags(block: Block, status: str) -> list[str]:
    """The tags that make the notebook run again from top to bottom where nothing of ours is installed."""
    if status in _UNREPEATABLE or isinstance(block, AgentBlock):
        return ["skip-execution"]
    return ["raises-exception"] if status == "error" else []


def _execution(record: BlockRecord) -> dict[str, str]:
    """The timing fields that JupyterLab and nbclient write, so that their readers show ours too."""
    if record.started is None:
        return {}
    began = _iso(record.started)
    fields = dict.fromkeys(("iopub.status.busy", "iopub.execute_input", "shell.execute_reply.started"), began)
    if record.result:
        fields |= dict.fromkeys(("shell.execute_reply", "iopub.status.idle"), _iso(record.result.ended))
    return fields


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _summary(start: RunStarted, end: RunEnded) -> str:
    turns = "1 turn" if end.turns == 1 else f"{end.turns} turns"
    tokens = f"{end.usage.input_tokens:,} tokens in, {end.usage.output_tokens:,} out"
    cost = f", ${end.usage.cost:.4f}" if end.usage.cost else ""
    return f"{_STOPS[end.stop]} after {turns}, {format_duration(end.at - start.at)}; {tokens}{cost}."


def _cell_id(name: CellName, use: int) -> str:
    """A readable id that is unique for its name, within nbformat's 1 to 64 characters of [A-Za-z0-9_-]."""
    digest = hashlib.blake2s(repr((name, use)).encode("ascii", "backslashreplace"), digest_size=5).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", "-".join(name)).strip("-")[-52:].strip("-")
    return f"{readable or 'cell'}-{digest}"

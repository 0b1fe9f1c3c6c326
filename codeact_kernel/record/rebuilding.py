"""A notebook, read back as the events that it was written of.

Comes in: `run.ipynb`. Goes out: events that make much the same transcript again: the context word for word, replies and
blocks with their outputs. What a notebook does not hold (the middle of a long output, the names of a namespace, tool
calls) is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from codeact_kernel.blocks import (
    AgentBlock,
    Block,
    BlockResult,
    CodeBlock,
    DisplayOutput,
    ErrorOutput,
    Outcome,
    Output,
    Part,
    ResultOutput,
    StreamOutput,
)
from codeact_kernel.decoding import decode
from codeact_kernel.errors import RecordError
from codeact_kernel.events import (
    Appended,
    Audited,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Entry,
    Event,
    ModelUsed,
    NoteReceived,
    Reply,
    RunEnded,
    RunStarted,
    TurnStarted,
)
from codeact_kernel.messages import ToolCall, Usage
from codeact_kernel.record.edits import BLOCKS, matched, own_cells
from codeact_kernel.record.notebook import parsed

Parse = Callable[[str, tuple[ToolCall, ...]], tuple[Part, ...]]
"""Reads a reply: its text and its calls."""
_ALIVE = ("waiting", "running")


def read_notebook(path: Path) -> dict[str, Any]:
    """Read a run's notebook.

    Args:
        path: The notebook.

    Returns:
        What it holds, as plain values.

    Raises:
        RecordError: If it cannot be read, or is no record of a run.
    """
    notebook = parsed(path)
    if not isinstance(notebook["metadata"].get("codeact"), dict):
        raise RecordError(f"{path} is no record of a run")
    return notebook


def notebook_events(notebook: Mapping[str, Any], parse: Parse) -> Iterator[Event]:
    """Make events of a notebook.

    Args:
        notebook: As `read_notebook` gives it.
        parse: Reads the parts of a reply.

    Raises:
        RecordError: If what it says of a run cannot be understood.
    """
    try:
        yield from _Rebuilt(notebook, parse).events()
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"the notebook does not hold what a resume needs: {error!r}") from error


class _Rebuilt:
    """One notebook on its way back."""

    def __init__(self, notebook: Mapping[str, Any], parse: Parse) -> None:
        self._about = notebook["metadata"]["codeact"]
        self._parse = parse
        cells = list(own_cells(notebook))
        runs = dict.fromkeys(about["run"] for _, about in cells if "run" in about)
        tasks = {about["run"]: about for _, about in cells if about.get("kind") == "task"}
        # Whoever has taken out a heading has left the run.
        self._tasks = [tasks.get(run, {"run": run}) for run in runs] or [{"run": self._about["run_id"]}]
        self._ends = {about["run"]: about for _, about in cells if about.get("kind") == "answer"}
        self._blocks: dict[tuple[str, int], list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
        self._notes: dict[tuple[str, int], list[NoteReceived]] = {}
        """Both by run and turn."""
        for cell, about in cells:
            if about.get("kind") in BLOCKS and "id" in about:
                self._blocks.setdefault((about["run"], about["turn"]), []).append((cell, about))
        for note in self._about["notes"]:
            received = NoteReceived(note["from"], note["text"])
            self._notes.setdefault((note["run_id"], note["turn"]), []).append(received)
        self._run = ""
        self._turn = self._before = 0
        """The turn that is read, and the last one of the run before."""
        self._said = ""
        self._used = Usage()
        """What the replies so far have used."""

    def events(self) -> Iterator[Event]:
        replies = iter(self._about["replies"])
        tasks = iter(self._tasks)
        for entry in self._about["context"]:
            if entry["type"] == "Reply":
                yield from self._reply(entry["turn"], next(replies))
                continue
            if entry["type"] == "Task":
                yield from self._end()
                yield self._start(next(tasks), entry["text"])
            yield Appended(self._turn, decode(Entry, dict(entry)))
        yield from self._end()
        yield ModelUsed(self._about.get("model", ""), Usage(**self._about["usage"]) - self._used)
        if audit := self._about.get("audit"):
            yield Audited(int(audit["lines"]), str(audit["head"]))

    def _start(self, task: Mapping[str, Any], text: str) -> RunStarted:
        self._run, self._before = task["run"], self._turn
        about, at = self._about, float(task.get("volatile", {}).get("started", 0.0))
        texts = {name: str(about.get(name, "")) for name in ("model", "system", "kernel")}
        sandbox, options = str(about.get("sandbox", "none")), dict(about.get("options", {}))
        approve = str(options.get("approve", ""))
        return RunStarted(self._run, text, at=at, sandbox=sandbox, approve=approve, options=options, **texts)

    def _end(self) -> Iterator[Event]:
        if (end := self._ends.pop(self._run, None)) is not None:
            about = self._about if self._about.get("run_id") == self._run else {}
            times = end.get("volatile", {})
            at, usage = float(times.get("ended", 0.0)), Usage(**times.get("usage", {}))
            # Of an earlier run the answer stands in no other place than its last reply.
            answer = about.get("answer", self._said.strip() if end["stop_reason"] == "answered" else None)
            turns = end.get("turns", self._turn - self._before)
            message = end.get("message", about.get("message", ""))
            yield RunEnded(end["stop_reason"], answer, usage, turns, at, message)

    def _reply(self, turn: int, said: Mapping[str, Any]) -> Iterator[Event]:
        self._turn, self._said = turn, said["text"]
        blocks = self._blocks.get((self._run, turn), [])
        times = [about.get("volatile", {}).get("queued", 0.0) for _, about in blocks]
        calls = tuple(ToolCall(**call) for call in said["calls"])
        volatile = said.get("volatile", {})
        used, began = Usage(**volatile.get("usage", {})), volatile.get("started", 0.0)
        self._used += used
        yield TurnStarted(turn, began or min(times, default=0.0))
        yield from self._notes.get((self._run, turn), ())
        parts, ended = self._parse(said["text"], calls), volatile.get("ended", 0.0)
        replied = [about for _, about in blocks if not about["attributes"].get("by")]
        job_ids = _job_ids(calls, parts, replied)
        yield Appended(turn, Reply(turn, said["text"], parts, (), calls, job_ids, used, began, ended))
        for cell, about in blocks:
            yield from _block(turn, cell, about)


def _job_ids(
    calls: Sequence[ToolCall], parts: Sequence[Part], blocks: Sequence[Mapping[str, Any]]
) -> tuple[str | None, ...]:
    """The id of each call's block, as far as its cell is left."""
    begun = [part for part in parts if isinstance(part, CodeBlock | AgentBlock)]
    ids = iter(None if place is None else str(blocks[place]["id"]) for place in matched(begun, blocks))
    return tuple(next(ids, None) if call.name in BLOCKS else None for call in calls)


def _block(turn: int, cell: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[Event]:
    name, block, times = about["id"], _read_block(cell, about), about.get("volatile", {})
    queued, started = float(times.get("queued", 0.0)), times.get("started")
    outputs = [_output(output) for output in cell["outputs"]]
    yield BlockQueued(turn, name, block, queued)
    if started is not None:
        yield BlockStarted(name, about.get("lane", "main"), float(started))
    for output in outputs:
        yield BlockOutput(name, output)
    if about["status"] not in _ALIVE:
        outcome = Outcome(
            about["status"],
            about.get("error"),
            tuple(about.get("notes", ())),
            about.get("lane"),
            cell.get("execution_count"),
            missing=int(about.get("missing", 0)),
        )
        ended = float(times.get("ended", queued))
        yield BlockFinished(BlockResult(name, block, outcome, tuple(outputs), queued, started, ended))


def _read_block(cell: Mapping[str, Any], about: Mapping[str, Any]) -> Block:
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in about["attributes"].items()
    }
    if about["kind"] == "run_agent":
        return replace(AgentBlock(""), **given)
    return replace(CodeBlock(cell["source"]), **given)


def _output(output: Mapping[str, Any]) -> Output:
    match output["output_type"]:
        case "stream":
            return StreamOutput(output["name"], output["text"])
        case "error":
            return ErrorOutput(output["ename"], output["evalue"], tuple(output["traceback"]))
        case "execute_result":
            return ResultOutput(dict(output["data"]), dict(output["metadata"]), output.get("execution_count"))
    return DisplayOutput(dict(output["data"]), dict(output["metadata"]))

"""One agent's events as cells.

Comes in: events of one agent. Goes out: cells, while the model still writes them; what the bar says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from codeact_kernel.blocks import AgentBlock, Block, CodeBlock, DisplayOutput, Fault, Part, Prose
from codeact_kernel.dialogue import codec
from codeact_kernel.events import (
    Appended,
    BlockChanged,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Event,
    GoalMet,
    KernelEnded,
    Knowledge,
    ModelRetry,
    NoteReceived,
    Notice,
    Reply,
    ReplyDelta,
    RunEnded,
    RunResumed,
    RunStarted,
    Spent,
    TurnStarted,
)
from codeact_kernel.lab.cell import LIVE, Cell, Kind
from codeact_kernel.record import inert

if TYPE_CHECKING:
    from codeact_kernel.lab.cells import Cells

_ENDS = {"answered": "answered", "limit": "limit", "cancelled": "stopped", "failed": "failed"}


class Teller:
    """Tells one agent.

    Args:
        cells: Where its cells go.
        parent: The cell of its block; None for the agent itself.
    """

    def __init__(self, cells: Cells, parent: Cell | None = None) -> None:
        self._cells = cells
        self._parent = parent
        self._depth = 0 if parent is None else parent.depth + 1
        self._last = parent
        self._codec = codec(cells.protocol)
        self._reader = self._codec.reader(lambda code: True)
        self._prose: tuple[Cell, str] | None = None
        """Prose that is being written: its cell, and what the model wrote."""
        self._open: Cell | None = None
        """The block that is being written."""
        self._whole: list[Cell] = []
        """Blocks that are written and not queued yet."""
        self._blocks: dict[str, Cell] = {}

    def of_agent(self, name: str) -> Teller:
        """The teller of a sub-agent."""
        return Teller(self._cells, self._blocks.get(name, self._last))

    def __call__(self, event: Event) -> None:
        """Tell an event."""
        match event:
            case TurnStarted():
                self._reader = self._codec.reader(lambda code: True)
                self._prose = None
                if self._depth == 0:
                    fill = event.context_tokens / event.window if event.window else None
                    self._cells.put(context=fill)
                    self._doing("the model thinks")
            case ReplyDelta():
                self._read(self._reader.feed(event.text))
            case Appended(entry=Reply() as reply):
                self._replied(reply)
            case BlockQueued():
                self._queued(event.id, event.block)
            case NoteReceived():
                self._say(f"> **A note from {event.sender}:** " + event.text.replace("\n", "\n> "))
            case Appended(entry=Knowledge()):
                self._say("*The context was compacted.*")
            case GoalMet():
                self._say(f"*The goal is met:* {event.evidence}")
            case KernelEnded():
                self._say(f"*The kernel {event.reason}. The next block gets a new one.*")
            case BlockStarted() | BlockOutput() | BlockFinished() | BlockChanged():
                self._of_block(event)
            case _:
                if self._depth == 0:
                    self._of_run(event)

    def _of_run(self, event: Event) -> None:
        put = self._cells.put
        match event:
            case RunStarted() | RunResumed():
                put(model=event.model)
            case Spent():
                put(turns=event.turns, tokens=event.usage.total_tokens, cost=event.usage.cost)
            case ModelRetry():
                put(text=f"{event.reason}; again in {event.wait:.0f} s")
            case Notice():
                put(text=event.text)
            case RunEnded():
                self._left_open()
                self._cells.answer = event.answer
                put(
                    state=_ENDS[event.stop],
                    text=event.message,
                    ended=event.at,
                    turns=event.turns,
                    tokens=event.usage.total_tokens,
                    cost=event.usage.cost,
                    blocks=[],
                )
            case _:
                pass

    # -- replies ------------------------------------------------------------------------------------------

    def _read(self, parts: Sequence[Part | Fault]) -> None:
        for part in parts:
            if isinstance(part, Prose):
                self._write_prose(part.text)
            elif isinstance(part, CodeBlock | AgentBlock):
                cell = self._open or self._add(_kind_of(part))
                cell.kind, cell.source = _kind_of(part), _source_of(part)
                cell.state = "queued"
                self._cells.touch(cell)
                self._whole.append(cell)
                self._open = self._prose = None
            elif self._open is not None:  # what was wrong with it stands in the reply's faults
                self._end(self._open, "rejected", part.message if isinstance(part, Fault) else "")
                self._open = None
        if (writing := self._reader.writing) is not None:
            self._prose = None
            if self._open is None:
                self._open = self._add("code" if writing[0] == "run_code" else "agent", state="writing")
            self._open.source = writing[1] if self._open.kind == "code" else _heading("", writing[1])
            self._cells.touch(self._open)

    def _write_prose(self, text: str) -> None:
        if self._prose is None:
            if not text.strip():
                return
            self._prose = self._add("prose"), ""
        cell, written = self._prose
        self._prose = cell, written + text
        cell.source = inert((written + text).strip())
        self._cells.touch(cell)

    def _replied(self, reply: Reply) -> None:
        self._read(self._reader.finish(reply.finish))
        self._left_open(next((fault.message for fault in reply.faults if not fault.runs), ""))

    def _left_open(self, why: str = "") -> None:
        """End the cells of blocks that will never be queued."""
        left = [*self._whole, *([self._open] if self._open is not None else [])]
        for cell in left:
            self._end(cell, "rejected", why)
        self._whole.clear()
        self._open = None

    # -- blocks -------------------------------------------------------------------------------------------

    def _queued(self, name: str, block: Block) -> None:
        kind, source = _kind_of(block), _source_of(block)
        cell = next((cell for cell in self._whole if (cell.kind, cell.source) == (kind, source)), None)
        if cell is None:
            cell = self._add(kind)
        else:
            self._whole.remove(cell)
        cell.kind, cell.source, cell.block, cell.state = kind, _source_of(block, name), name, "queued"
        self._blocks[name] = cell
        self._live(name, True)
        self._cells.touch(cell)

    def _of_block(self, event: BlockStarted | BlockOutput | BlockFinished | BlockChanged) -> None:
        name = event.result.id if isinstance(event, BlockFinished) else event.id
        cell = self._blocks.get(name)
        if cell is None:
            return
        match event:
            case BlockStarted():
                cell.state, cell.started = "running", event.at
                self._doing(f"{name} runs")
            case BlockChanged():
                cell.source = _source_of(event.block, name)
            case BlockOutput(output=DisplayOutput(update=True) as update) if not cell.show(update):
                for other in self._cells.all:
                    if other.show(update):
                        self._cells.touch(other)
            case BlockOutput(output=DisplayOutput(update=True)):
                pass
            case BlockOutput():
                if not cell.put_out(event.output):
                    return
            case BlockFinished(result=result):
                why = (result.outcome.error or "") if result.status not in ("ok", "error") else ""
                self._end(cell, result.status, why.partition("\n")[0] or " ".join(result.outcome.notes))
                self._live(name, False)
        self._cells.touch(cell)

    def _doing(self, what: str) -> None:
        """Say what goes on, unless somebody is asked: that is more."""
        if self._cells.bar["state"] == "working":
            self._cells.put(text=what)

    def _live(self, name: str, lives: bool) -> None:
        if self._depth == 0:
            others = [other for other in self._cells.bar["blocks"] if other != name]
            self._cells.put(blocks=[*others, name] if lives else others)

    def _end(self, cell: Cell, state: str, note: str | None) -> None:
        if cell.state in LIVE:
            cell.state, cell.ended, cell.note = state, self._cells.wall(), note or ""
            self._cells.touch(cell)

    def _say(self, text: str) -> None:
        cell = self._add("prose")
        cell.source = inert(text)
        self._cells.touch(cell)

    def _add(self, kind: Kind, state: str = "") -> Cell:
        under = None if self._parent is None else self._parent.id
        self._last = self._cells.add(kind, self._depth, self._last, state=state, under=under)
        return self._last


def _kind_of(block: Block) -> Kind:
    return "agent" if isinstance(block, AgentBlock) else "code"


def _source_of(block: Block, name: str = "") -> str:
    return block.code if isinstance(block, CodeBlock) else _heading(name or block.id or "", block.task)


def _heading(name: str, task: str) -> str:
    return f"Sub-agent {inert(name)}: {inert(task.strip())}"

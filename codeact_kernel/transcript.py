"""What happened, in memory: the events of a run folded into turns, blocks and context entries.

Comes in: events, one after the other. Goes out: `Transcript`, which the window reads to build a request and
the record reads to write the notebook. Nothing else keeps a second account of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from codeact_kernel.blocks import Block, BlockResult, LeftOut
from codeact_kernel.events import (
    Appended,
    Audited,
    BlockChanged,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Drafted,
    Entry,
    Event,
    ModelUsed,
    NoteReceived,
    Reply,
    RunEnded,
    RunResumed,
    RunStarted,
    StopReason,
    TurnStarted,
)
from codeact_kernel.excerpt import Excerpt
from codeact_kernel.messages import Usage


@dataclass(slots=True)
class BlockRecord:
    """A block from its launch to its end, with what it put out; a long middle of that is left out."""

    id: str
    turn: int
    block: Block
    queued: float
    started: float | None = None
    lane: str | None = None
    outputs: Excerpt = field(default_factory=Excerpt)
    late: int = 0
    """How many of the outputs came after the block's end."""
    result: BlockResult | None = None

    @property
    def file(self) -> str | None:
        """Where all of its text lies, seen from the run's folder; None where nothing else holds it."""
        outputs = self.result.outputs if self.result else ()
        return next((output.file for output in outputs if isinstance(output, LeftOut)), None)


@dataclass(slots=True)
class Turn:
    """One reply and all that it caused."""

    number: int
    started: float
    notes: list[NoteReceived] = field(default_factory=list)
    """Notes that came in while this turn was the last one."""
    draft: Reply | None = None
    """What had come of the reply with its latest block; None once it is whole."""
    reply: Reply | None = None
    blocks: list[BlockRecord] = field(default_factory=list)


@dataclass(slots=True)
class RunRecord:
    """One run of the transcript: a task and what became of it. A chat has several."""

    start: RunStarted
    before: Usage = field(default_factory=Usage)
    """What the runs before it had used."""
    turns: list[Turn] = field(default_factory=list)
    resumed: list[RunResumed] = field(default_factory=list)
    """Each time that it went on after it had stopped."""
    end: RunEnded | None = None

    @property
    def now(self) -> RunStarted | RunResumed:
        """What tells of the model, the kernel, the sandbox and the options as they are now."""
        return self.resumed[-1] if self.resumed else self.start

    @property
    def worked(self) -> float:
        """Seconds that it had been at work before it was last resumed."""
        return self.resumed[-1].worked if self.resumed else 0.0

    @property
    def stop(self) -> StopReason | None:
        """Why it ended, or None while it goes on."""
        return self.end.stop if self.end else None


@dataclass(slots=True)
class Transcript:
    """The account of an agent's runs."""

    runs: list[RunRecord] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    """What the context is made of, in order; a `Knowledge` entry replaces all before it."""
    blocks: dict[str, BlockRecord] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    audit: Audited | None = None
    """How far the audit goes, where there is one."""

    def apply(self, event: Event) -> None:
        """Fold one event in.

        Args:
            event: The next event, in the order in which things happened. Kinds that only matter live
                (deltas, heartbeats, retries, tool calls) leave the transcript as it is.
        """
        match event:
            case RunStarted():
                self.runs.append(RunRecord(event, self.usage))
            case RunResumed():
                self.runs[-1].end = None
                self.runs[-1].resumed.append(event)
            case RunEnded():
                self.runs[-1].end = event
            case TurnStarted():
                self._begin(event)
            case Drafted():
                self.runs[-1].turns[-1].draft = event.reply
            case NoteReceived():
                if self.runs and self.runs[-1].turns:
                    self.runs[-1].turns[-1].notes.append(event)
            case Appended():
                self._append(event.entry)
            case BlockQueued():
                record = BlockRecord(event.id, event.turn, event.block, event.at)
                self.blocks[event.id] = record
                self.runs[-1].turns[-1].blocks.append(record)
            case BlockChanged():
                self.blocks[event.id].block = event.block
            case BlockStarted():
                self.blocks[event.id].started = event.at
                self.blocks[event.id].lane = event.lane
            case BlockOutput():
                record = self.blocks[event.id]
                record.outputs.add(event.output)
                record.late += event.late
            case BlockFinished():
                self.blocks[event.result.id].result = event.result
                self.usage += event.result.outcome.usage
            case ModelUsed():
                self.usage += event.usage
            case Audited():
                self.audit = event
            case _:
                pass

    def _begin(self, event: TurnStarted) -> None:
        """Begin a turn; one that a crash has broken off before anything came of it is begun again."""
        turns = self.runs[-1].turns
        if turns and turns[-1].number == event.turn and not (turns[-1].reply or turns[-1].draft):
            turns[-1].started = event.at
        else:
            turns.append(Turn(event.turn, event.at))

    def _append(self, entry: Entry) -> None:
        self.entries.append(entry)
        if isinstance(entry, Reply):
            self.usage += entry.usage
            if self.runs and self.runs[-1].turns:
                self.runs[-1].turns[-1].reply, self.runs[-1].turns[-1].draft = entry, None

"""What happened, in memory: the events of a run folded into turns, blocks and context entries.

Comes in: events, one after the other. Goes out: `Transcript`, which the window reads to build a request and
the record reads to write the notebook. Nothing else keeps a second account of the run. What is settled can be taken out
of it by whoever writes it down, so that a run of days does not grow in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

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
    GoalSet,
    Knowledge,
    ModelUsed,
    NoteReceived,
    Reply,
    RunEnded,
    RunResumed,
    RunStarted,
    Spent,
    StopReason,
    TurnStarted,
    WakeUpEnded,
    WakeUpSet,
)
from codeact_kernel.excerpt import Excerpt
from codeact_kernel.messages import Usage

LATEST = 50
"""Turns that stay when others are taken out: what somebody still looks at, or still waits for."""


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
    place: int = 0
    """Its place in its run, from 0."""
    notes: list[NoteReceived] = field(default_factory=list)
    """Notes that came in while this turn was the last one."""
    compactions: list[Knowledge] = field(default_factory=list)
    """What the context was replaced by while this turn was the last one."""
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
    """In order; of a long run without those that were taken out."""
    turn_count: int = 0
    """All turns that it has had."""
    number: int = 0
    """Its place among the runs of the transcript, from 0."""
    resumed: list[RunResumed] = field(default_factory=list)
    """Each time that it went on after it had stopped."""
    goal: GoalSet | None = None
    """That its task is a standing goal; None where it is none."""
    end: RunEnded | None = None
    spent: Spent = field(default_factory=Spent)
    """What it has used so far with all below it; a root's only."""

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


@dataclass(frozen=True, slots=True)
class Settled:
    """What was taken out of a transcript, because nothing of it changes any more."""

    runs: tuple[RunRecord, ...] = ()
    """Runs, each with those of its turns alone."""
    entries: tuple[Entry, ...] = ()
    first: int = 0
    """The place of the first of the entries."""


@dataclass(slots=True)
class Transcript:
    """The account of an agent's runs."""

    runs: list[RunRecord] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    """What the context is made of, in order; a `Knowledge` entry replaces all before it."""
    taken: int = 0
    """Entries before them that were taken out."""
    blocks: dict[str, BlockRecord] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    notes: list[NoteReceived] = field(default_factory=list)
    """All notes of all turns."""
    wake_ups: dict[str, WakeUpSet] = field(default_factory=dict)
    """Those that have not come, by id."""
    audit: Audited | None = None
    """How far the audit goes, where there is one."""
    before_taking: list[Callable[[], None]] = field(default_factory=list)
    """Called before anything is taken out, for who needs to have read it."""

    @property
    def last_turn(self) -> int:
        """The number of the last turn of which anything came; 0 before the first."""
        turns = [turn for run in self.runs for turn in run.turns[-2:]]
        return max((turn.number for turn in turns if turn.reply or turn.draft or turn.blocks), default=0)

    def apply(self, event: Event) -> None:
        """Fold one event in.

        Args:
            event: The next event, in the order in which things happened. Kinds that only matter live
                (deltas, heartbeats, retries, tool calls) leave the transcript as it is.
        """
        match event:
            case RunStarted():
                self.runs.append(RunRecord(event, self.usage, number=len(self.runs)))
            case RunResumed():
                self.runs[-1].end = None
                self.runs[-1].resumed.append(event)
            case GoalSet():
                self.runs[-1].goal = event
            case RunEnded():
                self.runs[-1].end = event
            case TurnStarted():
                self._begin(event)
            case Drafted():
                self.runs[-1].turns[-1].draft = event.reply
            case NoteReceived():
                if self.runs and self.runs[-1].turns:
                    self.runs[-1].turns[-1].notes.append(event)
                    self.notes.append(event)
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
                if event.late and event.id not in self.blocks:
                    return  # its block was taken out; the journal has it
                record = self.blocks[event.id]
                record.outputs.add(event.output)
                record.late += event.late
            case BlockFinished():
                self.blocks[event.result.id].result = event.result
                self.usage += event.result.outcome.usage
            case ModelUsed():
                self.usage += event.usage
            case Spent():
                self.runs[-1].spent = event
            case WakeUpSet():
                self.wake_ups[event.id] = event
            case WakeUpEnded():
                self.wake_ups.pop(event.id, None)
            case Audited():
                self.audit = event
            case _:
                pass

    def _begin(self, event: TurnStarted) -> None:
        """Begin a turn; one that a crash has broken off before anything came of it is begun again."""
        turns = self.runs[-1].turns
        if turns and turns[-1].number == event.turn and not (turns[-1].reply or turns[-1].blocks):
            turns[-1].started = event.at
        else:
            turns.append(Turn(event.turn, event.at, self.runs[-1].turn_count))
            self.runs[-1].turn_count += 1

    @property
    def turn_count(self) -> int:
        """All turns of all runs."""
        return sum(run.turn_count for run in self.runs)

    def take_settled(self, latest: int = LATEST) -> Settled | None:
        """Take out what does not change any more: of turns and of entries of the context, once it is worth it.

        Turns are settled whose reply and blocks have ended, but for the latest; entries, once a compaction has
        replaced them.

        Args:
            latest: Turns that stay, at least one; as many have to be settled besides.

        Returns:
            What was taken out; None for nothing.
        """
        old = [(run, turn) for run in self.runs for turn in run.turns][:-latest]
        done = {id(turn) for _, turn in old if _is_settled(turn)}
        if len(done) < latest:
            return None
        for read in self.before_taking:
            read()
        runs = []
        for run in self.runs:
            turns = [turn for turn in run.turns if id(turn) in done]
            if turns:
                runs.append(replace(run, turns=turns))
                run.turns = [turn for turn in run.turns if id(turn) not in done]
        for record in (block for run in runs for turn in run.turns for block in turn.blocks):
            self.blocks.pop(record.id, None)
        seen = max((at for at, entry in enumerate(self.entries) if isinstance(entry, Knowledge)), default=0)
        entries, first = tuple(self.entries[:seen]), self.taken
        del self.entries[:seen]
        self.taken += seen
        return Settled(tuple(runs), entries, first)

    def _append(self, entry: Entry) -> None:
        self.entries.append(entry)
        if isinstance(entry, Reply):
            self.usage += entry.usage
            if self.runs and self.runs[-1].turns:
                self.runs[-1].turns[-1].reply, self.runs[-1].turns[-1].draft = entry, None
        elif isinstance(entry, Knowledge) and self.runs and self.runs[-1].turns:
            self.runs[-1].turns[-1].compactions.append(entry)


def _is_settled(turn: Turn) -> bool:
    return turn.reply is not None and all(record.result is not None for record in turn.blocks)

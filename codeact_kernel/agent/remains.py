"""What a run has left open: what its model has not been told, and what nobody knows the end of.

Comes in: the events of a journal. Goes out: `Remains`, which a resume tells the model of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from codeact_kernel.blocks import Output, Prose
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    Event,
    KernelEnded,
    KernelLeased,
    NoteReceived,
    Observation,
    Reply,
    RunResumed,
    RunStarted,
    Spent,
    ToolCalled,
    ToolReturned,
)

RESULTS = ("run_code_result", "agent_result")


@dataclass(slots=True)
class Remains:
    """What is left open, as events are folded in."""

    notes: list[NoteReceived] = field(default_factory=list)
    """Notes that the model has not read."""
    told: set[str] = field(default_factory=set)
    """The blocks, by settled id, whose ends the model has read."""
    calls: dict[str, ToolCalled] = field(default_factory=dict)
    """Tool calls that have not returned, by their ids."""
    unseen: dict[str, str] = field(default_factory=dict)
    """Blocks, by settled id, of which only the audit knows, and what they were."""
    names: tuple[str, ...] = ()
    """What the namespace held when it was last heard of."""
    unanswered: Reply | None = None
    """The last reply, where nothing has followed it: what was wrong with it is not told."""
    leased: KernelLeased | None = None
    """Where its kernel is, if that may have outlived its host."""
    outputs: dict[str, list[Output]] = field(default_factory=dict)
    """What each block that runs in such a kernel has put out, by settled id."""
    upto: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of each block in such a kernel the number of the first output that is not kept, and the length of its text."""
    last: float = 0.0
    """When something was last heard of."""
    worked: float = 0.0
    """Seconds that the run was at work."""

    @property
    def has_answer(self) -> bool:
        """Whether the last reply is an answer that nobody has taken."""
        reply = self.unanswered
        if reply is None or reply.calls or not reply.text.strip():
            return False
        return all(isinstance(part, Prose) for part in reply.parts)

    def apply(self, event: Event) -> None:
        """Fold one event in.

        Args:
            event: The next event.
        """
        self._keep_time(event)
        match event:
            case Spent():
                # By a clock that nobody sets, and that stands still while the machine sleeps: the other begins anew.
                self.worked, self.last = event.seconds, 0.0
            case RunStarted():
                self.notes.clear()
                self.calls.clear()
                self.leased = None
            case RunResumed():
                self.leased = None
            case NoteReceived():
                self.notes.append(event)
            case Appended(entry=Observation() as observation):
                self._tell(observation)
            case Appended(entry=entry):
                self.unanswered = entry if isinstance(entry, Reply) else None
            case BlockFinished():
                self.names = event.result.outcome.names or self.names
                self._forget_calls(event.result.id)
                self.outputs.pop(event.result.id, None)
            case BlockOutput() if self.leased is not None:
                self._keep(event)
            case KernelLeased():
                self.leased = event
            case KernelEnded():
                self.names, self.leased = (), None
            case ToolCalled():
                self.calls[event.call_id] = event
            case ToolReturned():
                self.calls.pop(event.call_id, None)
            case _:
                pass

    def heard(self, at: float) -> None:
        """Take that something was heard of at a time: of most events the journal does not say when they were.

        Args:
            at: Seconds since the epoch.
        """
        if self.last:
            self.worked += max(0.0, at - self.last)
            self.last = max(self.last, at)

    def _keep(self, event: BlockOutput) -> None:
        if event.upto is not None:
            self.upto[event.id] = event.upto
        if not event.late:
            self.outputs.setdefault(event.id, []).append(event.output)

    def _tell(self, observation: Observation) -> None:
        self.unanswered = None
        self.told |= {r.id for r in observation.reports if r.kind in RESULTS and r.id is not None}
        for report in observation.reports:
            if report.kind == "note":
                # A long one is told in part: they are told in the order in which they came.
                sender = dict(report.attrs).get("from")
                known = next((note for note in self.notes if note.sender == sender), None)
                self.notes = [note for note in self.notes if note is not known]

    def _forget_calls(self, block_id: str) -> None:
        self.calls = {id_: call for id_, call in self.calls.items() if call.block_id != block_id}

    def _keep_time(self, event: Event) -> None:
        at = _time_of(event)
        if isinstance(event, RunStarted):
            self.worked = 0.0
        elif not isinstance(event, RunResumed) and at and self.last:
            self.worked += max(0.0, at - self.last)
        self.last = at or self.last


def _time_of(event: Any) -> float:
    """When an event happened, as far as it says so."""
    if isinstance(event, BlockFinished):
        return event.result.ended
    if isinstance(event, Appended) and isinstance(event.entry, Reply):
        return event.entry.ended
    return float(getattr(event, "at", 0.0))

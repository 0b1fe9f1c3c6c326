"""Which events are audited, and what of each.

Comes in: events. Goes out: for each that is audited what its line says, and how soon the line has to be on the disk.

To audit one more kind of event, add a line to `AUDITED`. What happens only after its line is there (`NOW`, `SOON`) does
not happen where the line cannot be written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from codeact_kernel.events import (
    ApprovalAsked,
    BlockChanged,
    BlockFinished,
    BlockQueued,
    BlockStarted,
    CancelAsked,
    Decided,
    Event,
    GoalChecked,
    GoalMet,
    GoalSet,
    HostReached,
    KernelEnded,
    KernelLeased,
    NoteReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    ToolCalled,
    ToolReturned,
)

LONGEST = 16_384
"""Characters of a text that a line holds; of a longer one the beginning, its length, and a digest of all of it."""

_ATOMS = frozenset({type(None), bool, int, float})
When = Literal["now", "soon", "later"]
"""On the disk before the event is told to anybody; before what it announces happens; or with the next line that is."""


@dataclass(frozen=True, slots=True)
class Line:
    """How one kind of event is audited."""

    read: Callable[[Any], dict[str, Any]]
    """What of it the line holds."""
    when: When | Callable[[Any], When] = "now"
    """When it has to be on the disk; where that differs from event to event, what says so."""

    def due(self, event: Event) -> When:
        """When this event's line has to be on the disk."""
        return self.when(event) if callable(self.when) else self.when


def some(*names: str) -> Callable[[Any], dict[str, Any]]:
    """Reads these fields of an event."""
    return lambda event: {name: plain(getattr(event, name)) for name in names}


def all_but(kind: type[Any], *left_out: str) -> Callable[[Any], dict[str, Any]]:
    """Reads the fields of a kind of event, but for these."""
    return some(*(field.name for field in fields(kind) if field.name not in left_out))


def plain(value: Any, longest: int = LONGEST) -> Any:
    """A value as JSON, with long texts shortened.

    Args:
        value: The value.
        longest: Characters of a text that are kept.
    """
    kind = type(value)
    if kind is str:
        return value if len(value) <= longest else _shortened(value, longest)
    if kind in _ATOMS:
        return value
    if isinstance(value, dict):
        return {str(key): plain(item, longest) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, longest) for item in value]
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name), longest) for field in fields(value)}
    return plain(str(value), longest)


def _shortened(text: str, longest: int) -> dict[str, Any]:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"beginning": text[:longest], "characters": len(text), "sha256": digest}


def _queued(event: BlockQueued) -> dict[str, Any]:
    """A block with all of its code: nobody has to look elsewhere for what ran."""
    block = {"kind": type(event.block).__name__, **plain(event.block, 2**24)}
    return {"turn": event.turn, "id": event.id, "block": {k: v for k, v in block.items() if v is not None}}


def _finished(event: BlockFinished) -> dict[str, Any]:
    result = event.result
    return {
        "id": result.id,
        "status": result.status,
        "error": plain(result.outcome.error),
        "notes": plain(result.outcome.notes),
        "seconds": round(result.duration, 6),
    }


def _called(event: ToolCalled) -> dict[str, Any]:
    """A call, of which there may be thousands: its texts are bounded already."""
    return {
        "call_id": event.call_id,
        "name": event.name,
        "block_id": event.block_id,
        "arguments": event.arguments,
        "digest": event.digest,
    }


def _returned(event: ToolReturned) -> dict[str, Any]:
    return {
        "call_id": event.call_id,
        "ok": event.ok,
        "seconds": round(event.seconds, 6),
        "error": event.error,
    }


def _decided(event: Decided) -> dict[str, Any]:
    """A decision, with all of what somebody has put in the place of a block's code."""
    said = {
        "door": event.door,
        "block_id": event.block_id,
        "call_id": event.call_id,
        "name": event.name,
        "allowed": event.allowed,
        "by": event.by,
        "why": plain(event.why),
        "changed": plain(event.changed, 2**24),
        "waited": round(event.waited, 6),
    }
    return {name: value for name, value in said.items() if value not in ("", None)}


def _changed(event: BlockChanged) -> dict[str, Any]:
    return {"id": event.id, "block": {"kind": type(event.block).__name__, **plain(event.block, 2**24)}}


AUDITED: dict[type[Event], Line] = {
    RunStarted: Line(some("run_id", "task", "model", "kernel", "approve", "sandbox", "about_sandbox")),
    RunResumed: Line(all_but(RunResumed, "at", "worked")),
    BlockQueued: Line(_queued),
    BlockStarted: Line(some("id", "lane"), "later"),
    BlockFinished: Line(_finished, "later"),
    ApprovalAsked: Line(all_but(ApprovalAsked), "later"),
    BlockChanged: Line(_changed),
    Decided: Line(_decided, lambda event: "now" if event.door == "block" else "soon"),
    ToolCalled: Line(_called, "soon"),
    ToolReturned: Line(_returned, "later"),
    CancelAsked: Line(some("id", "reason"), "later"),
    KernelEnded: Line(some("reason", "returncode"), "later"),
    KernelLeased: Line(some("folder", "pid")),
    HostReached: Line(some("host", "port", "refused")),
    GoalSet: Line(all_but(GoalSet)),
    GoalChecked: Line(some("command", "code"), "later"),
    GoalMet: Line(all_but(GoalMet), "later"),
    NoteReceived: Line(all_but(NoteReceived), "later"),
    RunEnded: Line(all_but(RunEnded, "at"), "later"),
}

"""Going on where another process stopped.

Comes in: what a run has left open, a kernel. Goes out: events that give each block an end, and what the model is told
before it is asked again. Nothing is run again: whether a block is, only the model can say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from codeact_kernel.agent.inbox import Inbox, Note
from codeact_kernel.agent.remains import Remains
from codeact_kernel.agent.unfinished import end_of
from codeact_kernel.blocks import AgentBlock, format_duration
from codeact_kernel.dialogue import fault_report, format_parts
from codeact_kernel.errors import SHOWN
from codeact_kernel.events import Appended, BlockFinished, Event, Reply
from codeact_kernel.kernels import Kernel
from codeact_kernel.supervisor import Supervisor
from codeact_kernel.transcript import RunRecord, Transcript, Turn


@dataclass(frozen=True, slots=True)
class Restored:
    """What of a namespace has come back."""

    back: tuple[str, ...] = ()
    """The names that are there again."""
    gone: dict[str, str] = field(default_factory=dict)
    """The names that are not, each with the reason; an empty one is the kernel's end."""


async def restore(kernel: Kernel, folder: Path, names: tuple[str, ...]) -> Restored:
    """Bring back what a namespace held.

    Args:
        kernel: A fresh one, with what was seeded.
        folder: The run's.
        names: What the old one held when it was last heard of.

    Returns:
        What of it is there again.
    """
    del folder  # nothing of a namespace lies in it
    return Restored(gone={name: "" for name in names if name not in kernel.names})


def take_up(
    transcript: Transcript, remains: Remains, folder: Path, emit: Callable[[Event], None], inbox: Inbox
) -> None:
    """Give everything of the last run an end, and put what its model has not read where it reads next.

    Args:
        transcript: What happened, before the resume was noted.
        remains: What is left open.
        folder: The run's.
        emit: Gets the events that are missing.
        inbox: Where the loop waits. The ends that are emitted arrive there, too.
    """
    run = transcript.runs[-1]
    turn = run.turns[-1] if run.turns else None
    if turn is not None and turn.reply is None and (turn.draft or turn.blocks):
        emit(Appended(turn.number, partial(turn)))
    elif remains.unanswered is not None:
        for fault in remains.unanswered.faults:
            if not fault.runs:
                inbox.put(fault_report(fault))
    for record in [record for turn in run.turns for record in turn.blocks]:
        by_code = isinstance(record.block, AgentBlock) and record.block.by is not None
        if record.result is None:
            emit(BlockFinished(end_of(record, remains, folder)))
        elif record.id not in remains.told and not by_code:
            inbox.put(record.result)
    for note in remains.notes:
        inbox.put(Note(note.sender, note.text))


def recall(transcript: Transcript, supervisor: Supervisor) -> None:
    """Let code ask for the outputs of blocks that ended in an earlier process.

    Args:
        transcript: What happened.
        supervisor: Answers what code asks.
    """
    for record in transcript.blocks.values():
        if record.result is not None:
            outputs = tuple(record.outputs.outputs(record.file))
            supervisor.recall(replace(record.result, outputs=outputs), record.turn)


def partial(turn: Turn) -> Reply:
    """What had come of a reply when its process ended, as far as a block of it had been started."""
    blocks = tuple(record.block for record in turn.blocks)
    return turn.draft or Reply(turn.number, format_parts(blocks), blocks, started=turn.started)


def told(run: RunRecord, remains: Remains, restored: Restored, now: float) -> str:
    """What the model reads of the resume; empty where nothing is different for it.

    Args:
        run: The run.
        remains: What was left open.
        restored: What of its namespace is there again.
        now: The time, in seconds since the epoch.
    """
    if not (restored.gone or restored.back or any(turn.blocks for turn in run.turns)):
        return ""
    stopped = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(remains.last))
    ago = format_duration(now - remains.last)
    gone = f"The process that this run lived in ended at {stopped}, {ago} ago, and your kernel with it."
    lines = [f"{gone} The run goes on now, in a fresh kernel."]
    if restored.back:
        lines.append(f"These names are back: {_some(restored.back)}.")
    lost = [name for name, reason in restored.gone.items() if not reason]
    if lost:
        lines.append(f"These names are gone: {_some(lost)}.")
    lines += [
        f"{name} is not back: {reason}." for name, reason in list(restored.gone.items())[:SHOWN] if reason
    ]
    lines.append(
        "Nothing was run again. To run a block again is your choice, and sound only where running it twice does no "
        "harm; files that were written are still there."
    )
    return "\n".join(lines)


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"

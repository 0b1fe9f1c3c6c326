"""Going on where another process stopped.

Comes in: what a run has left open, a kernel. Goes out: events that give each block an end, and what the model is told
before it is asked again. Nothing is run again: whether a block is, only the model can say.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from codeact_kernel.agent.inbox import Inbox, Note
from codeact_kernel.agent.past import Past
from codeact_kernel.agent.reattaching import Living, find_living, take_up_living, told_of_living
from codeact_kernel.agent.remains import Remains
from codeact_kernel.agent.unfinished import end_of
from codeact_kernel.blocks import AgentBlock, format_duration
from codeact_kernel.dialogue import fault_report, format_parts, reminder_report
from codeact_kernel.errors import KernelDied, KernelError
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    Event,
    KernelLeased,
    NoteReceived,
    Reply,
    RunEnded,
    RunResumed,
)
from codeact_kernel.kernels import Kernel, Restored, after
from codeact_kernel.runfiles import Folder
from codeact_kernel.supervisor import Supervisor
from codeact_kernel.transcript import Transcript, Turn

if TYPE_CHECKING:
    from codeact_kernel.agent.assembly import Parts


async def take_past(
    past: Past,
    parts: Parts,
    resumed: RunResumed,
    emit: Callable[[Event], None],
    inbox: Inbox,
    *,
    goes_on: bool,
) -> None:
    """Take up a run: what it left open has an end then, what is left of its namespace is bound, and both are told.

    Args:
        past: The run, whose record is open.
        parts: Those of the agent that takes it up.
        resumed: What tells of that.
        emit: Gets the events that are missing.
        inbox: Where the loop waits.
        goes_on: Whether its last run goes on; else another one begins.
    """
    run, folder = past.transcript.runs[-1], past.folder
    stopped = run.end is not None
    living = find_living(parts, past.transcript)
    recall(past.transcript, parts.supervisor)
    if goes_on or run.end is None:
        emit(resumed)
        if (leased := parts.kernel.leased) is not None:
            emit(KernelLeased(**asdict(leased)))
        take_up(past.transcript, past.remains, folder.path, emit, inbox, living)
    if not goes_on and run.end is None:
        usage = past.transcript.usage - run.before
        emit(RunEnded("cancelled", None, usage, run.turn_count, time.time(), "another task was begun"))
    if past.edits:
        emit(NoteReceived("user", past.edits))
        inbox.put(Note("user", past.edits))
    is_answered = goes_on and past.remains.has_answer
    text = await (_of_living(past, parts, living) if living is not None else _of_dead(past, parts, stopped))
    # Where blocks live, prose alone was no answer: its model waits.
    if text and (inbox or not is_answered or (living is not None and living.states)):
        inbox.put(reminder_report(text))


async def _of_living(past: Past, parts: Parts, living: Living) -> str:
    """Take up what lived on; gives what is told of it."""
    await take_up_living(living, parts, past.transcript, past.remains)
    return told_of_living(living, parts.supervisor.live, past.remains, time.time())


async def _of_dead(past: Past, parts: Parts, stopped: bool) -> str:
    """Bring back what a checkpoint holds; gives what is told of it, or nothing where there is nothing to tell."""
    lived_on, run = parts.kernel.lived_on, past.transcript.runs[-1]
    fault = lived_on.fault if lived_on is not None and not stopped else ""
    death = await restore(parts.kernel, past.folder, past.remains)
    if death.lost or death.back or past.remains.unseen or any(turn.blocks for turn in run.turns):
        return told(death, past.remains, time.time(), fault)
    return ""


async def restore(kernel: Kernel, folder: Folder, remains: Remains) -> KernelDied:
    """Bring back what a namespace held.

    Args:
        kernel: A fresh one, with what was seeded.
        folder: The run's.
        remains: What is left open of the run.

    Returns:
        How the old kernel ended, with what is there again, and what is not, and why.
    """
    try:
        restored = await kernel.restore(folder)
    except KernelError as error:
        restored = Restored(fault=f"bringing the checkpoint back failed: {error.message}")
    names = tuple(dict.fromkeys((*remains.names, *restored.missing)))
    return after(KernelDied("the process that it lived in has ended", lost=names), kernel.names, restored)


def take_up(
    transcript: Transcript,
    remains: Remains,
    folder: Path,
    emit: Callable[[Event], None],
    inbox: Inbox,
    living: Living | None = None,
) -> None:
    """Give what does not live of the last run an end, and put what its model has not read where it reads next.

    Args:
        transcript: What happened, before the resume was noted.
        remains: What is left open.
        folder: The run's.
        emit: Gets the events that are missing.
        inbox: Where the loop waits. The ends that are emitted arrive there, too.
        living: The blocks that lived on in their kernel; None where that has ended.
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
            if living is None or record.id not in living.states:
                emit(BlockFinished(end_of(record, remains, folder, kernel_lives=living is not None)))
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


def told(death: KernelDied, remains: Remains, now: float, fault: str = "") -> str:
    """What the model reads of the resume.

    Args:
        death: How its kernel has ended, and what of its namespace is there again.
        remains: What is left open of the run.
        now: The time, in seconds since the epoch.
        fault: What has become of a kernel that should have outlived the process, as what follows "the kernel".
    """
    kernel = (
        f". Your kernel, which may outlive it for a while, {fault}" if fault else ", and your kernel with it"
    )
    stopped = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(remains.last))
    ago = format_duration(now - remains.last)
    unseen = "".join(
        f"\nThis was about to run or ran, and nothing else is known of it:\n{code}"
        for code in remains.unseen.values()
    )
    return (
        f"The process that this run lived in ended at {stopped}, {ago} ago{kernel}. The run goes on "
        f"now, in a fresh kernel.{death.loss}\nNothing was run again. To run a block again is your choice, and sound "
        f"only where running it twice does no harm; files that were written are still there.{unseen}"
    )

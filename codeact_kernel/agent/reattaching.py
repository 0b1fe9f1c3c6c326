"""Going on with a kernel that has outlived its host: its blocks are taken up where they are.

Comes in: what the kernel says of blocks, what the record has of them. Goes out: blocks in the supervisor's hand, with
the outputs that came meanwhile, and what the model is told of them. None of it is run again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codeact_kernel.agent.remains import Remains
from codeact_kernel.agent.unfinished import unknown
from codeact_kernel.blocks import BlockResult, Outcome, format_duration
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels import Leased
from codeact_kernel.supervisor import LiveBlock
from codeact_kernel.transcript import BlockRecord, Transcript

if TYPE_CHECKING:
    from codeact_kernel.agent.assembly import Parts

AS_IT_WAS = "all names are as your blocks have left them, and nothing was run again"
END = 6.0
"""Seconds that the ends of blocks which ended meanwhile are waited for: they come within a tenth of one."""


@dataclass(frozen=True, slots=True)
class Living:
    """The blocks that lived on, by settled id, as their kernel told when it was found."""

    states: Mapping[str, Mapping[str, Any]]

    def with_phase(self, phase: int) -> tuple[str, ...]:
        """Those in a phase."""
        return tuple(name for name, state in self.states.items() if state["phase"] == phase)


def find_living(parts: Parts, transcript: Transcript) -> Living | None:
    """What lives of a run's blocks; None where its kernel has not lived on.

    Args:
        parts: Those of the agent that takes the run up.
        transcript: What happened.
    """
    lived_on = parts.kernel.lived_on
    if lived_on is None or lived_on.fault:
        return None
    states = {}
    for state in lived_on.requests.values():
        record = transcript.blocks.get(state["id"])
        # What nobody has let run yet is not run: that was to be decided by who is gone.
        if record is not None and record.result is None and not state["held"]:
            states[record.id] = state
    return Living(states)


async def take_up_living(living: Living, parts: Parts, transcript: Transcript, remains: Remains) -> None:
    """Take blocks up that lived on, and what still comes of those that had ended before; wait for what has ended.

    Args:
        living: The blocks.
        parts: Those of the agent that takes the run up.
        transcript: What happened.
        remains: What is left open.
    """
    lived_on = parts.kernel.lived_on
    assert lived_on is not None
    parts.kernel.names = remains.names
    ends = []
    for msg_id, state in lived_on.requests.items():
        name = state["id"]
        first, length = remains.upto.get(name, (0, 0))
        if name in living.states:
            record = transcript.blocks[name]
            parts.runner.take_up(name, msg_id, state, first)
            ended = parts.supervisor.take_up(_so_far(record, remains), record.turn, length)
            ends += [ended] if state["phase"] == wire.ENDED else []
        elif state["held"]:
            await parts.kernel.refuse(msg_id)
        elif (watcher := parts.supervisor.watcher(name)) is not None:
            parts.runner.listen(name, msg_id, state, first, watcher)
    parts.kernel.settle()
    if ends:
        await asyncio.wait(ends, timeout=END)


def _so_far(record: BlockRecord, remains: Remains) -> BlockResult:
    """A block as it is kept: what it had put out, and when it was started."""
    outputs, outcome = tuple(remains.outputs.get(record.id, ())), Outcome(lane=record.lane)
    return BlockResult(record.id, record.block, outcome, outputs, record.queued, record.started)


def told_of_living(living: Living, live: Sequence[LiveBlock], remains: Remains, now: float) -> str:
    """What the model reads of a resume with the kernel that it had.

    Args:
        living: The blocks that lived on.
        live: Those that live now.
        remains: What was left open of the run.
        now: The time, in seconds since the epoch.
    """
    stopped = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(remains.last))
    ago = format_duration(now - remains.last)
    lines = [
        f"The process that this run lived in ended at {stopped}, {ago} ago. Your kernel lived on: {AS_IT_WAS}."
    ]
    phases = {"Ended meanwhile": wire.ENDED, "Still running": wire.RUNNING, "Still waiting": wire.WAITING}
    for words, phase in phases.items():
        if names := living.with_phase(phase):
            lines.append(f"{words}: {', '.join(names)}.")
    if late := [block.id for block in live if block.deadline is not None and block.deadline < now]:
        lines.append(f"Past the deadline, and being stopped: {', '.join(late)}.")
    calls = [
        call for call in remains.calls.values() if call.block_id is None or call.block_id in living.states
    ]
    return "\n".join([*lines, *(f"{unknown(call)}; in the kernel it failed." for call in calls)])


def place_of(remains: Remains) -> Leased | None:
    """Where the kernel of a run is, if it may have outlived its host.

    Args:
        remains: What is left open of the run.
    """
    leased = remains.leased
    if leased is None:
        return None
    return Leased(leased.folder, leased.socket, leased.pid, leased.started, leased.walls, leased.uid)

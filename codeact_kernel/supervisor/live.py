"""One block while the supervisor has it in hand.

Comes in: what the runner reports of the block (`Watcher`), and who wants it to end. Goes out: the block's
events in order, its result, and a picture of it for progress displays and the inventory (`LiveBlock`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from codeact_kernel.blocks import Block, BlockResult, CodeBlock, Job, Outcome, Output
from codeact_kernel.events import (
    BlockChanged,
    BlockFinished,
    BlockHeld,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Heartbeat,
)
from codeact_kernel.masking import Mask
from codeact_kernel.protocols import Observer
from codeact_kernel.supervisor.deadline import Clock, Ending
from codeact_kernel.supervisor.heartbeat import Rhythm
from codeact_kernel.supervisor.masking import OutputMask
from codeact_kernel.supervisor.output import OutputLog
from codeact_kernel.supervisor.shelf import Shelf

State = Literal["waiting", "waiting for approval", "running"]


@dataclass(frozen=True, slots=True)
class LiveBlock:
    """A picture of a block that has not ended. Times are seconds since the epoch."""

    id: str
    block: Block
    turn: int
    state: State
    """ "waiting" for order or a lane, "waiting for approval", or "running" since its first line of code."""
    queued: float
    started: float | None
    lane: str | None
    deadline: float | None
    """When it will be stopped; None while it waits, and for a block without a limit."""
    last_line: str
    """The last line that it put out, or an empty text."""
    heartbeat: float | None = None
    """Seconds between its reports now: as the model asked, or more while it only waits; None for no reports."""


class BlockWatch:
    """A block from its launch to its end and after: the `Watcher` of its runner.

    Making one queues the block: `BlockQueued` is emitted, unless an earlier process has done so.

    Args:
        job: The block and its settled id.
        turn: The turn that it belongs to.
        timeout: Seconds from its first line of code, or None for no limit.
        emit: Gets the block's events.
        wall: The time in seconds since the epoch.
        shelf: Where a long output goes.
        mask: Knows the secrets that no output may show.
        queued: When an earlier process has queued it; None for now.
    """

    def __init__(
        self,
        job: Job,
        turn: int,
        timeout: float | None,
        emit: Observer,
        wall: Callable[[], float],
        shelf: Shelf,
        mask: Mask | None = None,
        queued: float | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.job = job
        self.turn = turn
        self.clock = Clock(timeout)
        self.log = OutputLog(lambda: shelf.place(job.id), shelf.shown)
        self.rhythm = None if job.block.heartbeat is None else Rhythm(job.block.heartbeat)
        self.asked: asyncio.Future[Ending] = loop.create_future()
        """Done when the block has to end."""
        self.ended: asyncio.Future[BlockResult] = loop.create_future()
        """Done when the block has ended."""
        self._mask = Mask() if mask is None else mask
        self._outputs = OutputMask(self._mask)
        self._emit = emit
        self._wall = wall
        self._queued = wall() if queued is None else queued
        self._is_earlier = queued is not None
        self._upto: int | None = None
        self._started: float | None = None
        self._lane: str | None = None
        self._notes: tuple[str, ...] = ()
        self._pauses: Counter[str] = Counter()
        """Why its clock stands still."""
        self.is_judged = False
        """Whether somebody decides about it."""
        if queued is None:
            emit(BlockQueued(turn, job.id, job.block, self._queued))

    def take_up(self, started: float, lane: str | None) -> None:
        """Take when its first line of code ran, in an earlier process: its time goes on from there.

        Args:
            started: Seconds since the epoch.
            lane: The lane that it is in.
        """
        self._started, self._lane = started, lane
        self.clock.begin(max(0.0, self._wall() - started))

    def started(self, lane: str, at: float) -> None:
        """Take that the first line of code runs. A second time, or after the end, it is no news."""
        if self.began.done() or self.ended.done():
            return
        self._lane = lane
        self._started = at
        # One that an earlier process has queued may have been started long ago; else no clock that is set is asked.
        self.clock.begin(max(0.0, self._wall() - at) if self._is_earlier else 0.0)
        self._emit(BlockStarted(self.job.id, lane, at))

    def held(self, by: str | None) -> None:
        """Take that another block's code keeps it from going on, or no longer does."""
        if by is None:
            self.go_on("held")
        elif not self.ended.done():
            self.stand("held")
            self._emit(BlockHeld(self.job.id, by))

    def stand(self, why: str) -> None:
        """Let its deadline stand still until `go_on` was called as often for this reason, or the reason is "held"."""
        self._pauses[why] = 1 if why == "held" else self._pauses[why] + 1
        self.clock.stand()

    def go_on(self, why: str) -> None:
        """Take that a reason for which its deadline stands still is gone."""
        self._pauses[why] -= 1
        self._pauses = +self._pauses
        if not self._pauses:
            self.clock.go_on()

    def change(self, block: Block) -> None:
        """Take another block in the place of the one that the model wrote, before it runs."""
        if block != self.job.block:
            self.job = replace(self.job, block=block)
            self._notes = (*self._notes, _changed(block))
            self._emit(BlockChanged(self.job.id, block))

    def upto(self, number: int) -> None:
        """As in `Counted`."""
        self._upto = number
        self.log.tape.is_written_at_once = True

    def output(self, output: Output) -> None:
        """Take an output; after the end it is late output of this block."""
        pieces = [*self._outputs.feed(output)]
        for number, masked in enumerate(pieces, 1):
            self._keep(masked, self._upto if number == len(pieces) else None)

    def report(self, text: str, current: float, more: tuple[Output, ...] = ()) -> None:
        """Emit a heartbeat with the output that is new."""
        self._emit(Heartbeat(self.job.id, text, current, more))

    def ask(self, ending: Ending) -> None:
        """Want the block to end. The first who asks says why."""
        if not self.asked.done():
            self.asked.set_result(ending)

    def finish(self, outcome: Outcome) -> BlockResult:
        """End the block: makes its result, lets go those who wait for it, and emits `BlockFinished`."""
        for masked in self._outputs.finish():
            self._keep(masked)
        tape = self.log.tape
        outcome = self._mask.of(replace(outcome, notes=(*self._notes, *outcome.notes)))
        if tape.error is not None:
            outcome = replace(outcome, notes=(*outcome.notes, _unwritten(tape.lost, tape.error)))
        result = BlockResult(
            self.job.id,
            self.job.block,
            replace(outcome, lane=outcome.lane or self._lane),
            self.log.outputs(),
            self._queued,
            self._started,
            outcome.ended or self._wall(),
        )
        self.ended.set_result(result)
        self._emit(BlockFinished(result))
        return result

    def _keep(self, output: Output, upto: int | None = None) -> None:
        self.log.add(output)
        place = None if upto is None else (upto, self.log.tape.length)
        self._emit(BlockOutput(self.job.id, output, late=self.ended.done(), upto=place))

    @property
    def began(self) -> asyncio.Future[float]:
        """Done when the first line of code runs; its result is the loop's time of that moment."""
        return self.clock.began

    @property
    def _deadline(self) -> float | None:
        if self._started is None or self.clock.timeout is None:
            return None
        return self._started + self.clock.timeout + self.clock.stood

    @property
    def _state(self) -> State:
        if self._started is not None:
            return "running"
        return "waiting for approval" if self.is_judged else "waiting"

    @property
    def picture(self) -> LiveBlock:
        """What there is to see of it now."""
        return LiveBlock(
            id=self.job.id,
            block=self.job.block,
            turn=self.turn,
            state=self._state,
            queued=self._queued,
            started=self._started,
            lane=self._lane,
            deadline=self._deadline,
            last_line=self.log.last_line,
            heartbeat=None if self.rhythm is None else self.rhythm.interval,
        )


def _changed(block: Block) -> str:
    text = block.code if isinstance(block, CodeBlock) else block.task
    return f"it was changed by a person before it ran; this is what ran:\n{text}"


def _unwritten(lost: int, error: OSError) -> str:
    return f"{lost:,} characters of its output are lost, because they could not be written: {error.strerror or error}"

"""Keeps the notebook of a run on disk while the run goes on.

Comes in: the transcript, and every event as the sign that it has changed. Goes out: the `.ipynb`, whole and
valid at every moment, because each version is written beside it and then takes its place in one step. What is settled
is taken out of the transcript then, so that neither its memory nor the work of a write grows with the run.

A file that cannot be written is no reason to end a run of hours: the first failure is reported, once, as a
`RecordError`; the recorder tries again with the next change, and what it says of itself (`error`) is true at
the end. Whoever owns the run decides what that means for its exit code.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from codeact_kernel.errors import RecordError
from codeact_kernel.events import (
    BlockFinished,
    Event,
    Heartbeat,
    ModelRetry,
    Notice,
    ReplyDelta,
    RunEnded,
    RunResumed,
    RunStarted,
    Spent,
    ToolCalled,
    ToolReturned,
    TurnStarted,
)
from codeact_kernel.record.writing import NotebookFile
from codeact_kernel.transcript import Transcript

_SHARE = 49.0
"""Seconds of rest for each second that a write took; ours, so that a long record costs a fiftieth of a core."""

_ENDS = (RunStarted, RunResumed, TurnStarted, BlockFinished, RunEnded)
_UNRECORDED = (ReplyDelta, Heartbeat, ModelRetry, Notice, Spent, ToolCalled, ToolReturned)


class Recorder:
    """An `Observer` that writes a notebook. An `async with`: leaving it writes what is not written yet.

    The notebook is built and written in a thread. One write follows the other at the earliest after `soon`
    seconds when a turn, a block or the run has begun or ended, else after `every` seconds, and never so often
    that writing takes more than a fiftieth of the time.

    Args:
        file: The notebook's file; closed with it.
        transcript: What is written. It may go on changing in the loop's thread.
        report: Called in the loop's thread with the first failure, and with the first after a success.
        every: Seconds between two writes while something goes on.
        soon: Seconds between two writes at the end of something.
    """

    def __init__(
        self,
        file: NotebookFile,
        transcript: Transcript,
        *,
        report: Callable[[RecordError], None],
        every: float = 3.0,
        soon: float = 1.0,
    ) -> None:
        self._file = file
        self.error: RecordError | None = None
        """Why the last write failed, or None where it did not."""
        self.writes = 0
        """How many writes succeeded."""
        self._transcript = transcript
        self._report = report
        self._every = every
        self._soon = soon
        self._rest = math.inf
        """Seconds to wait after the last write; infinite while there is nothing new."""
        self._ended = -math.inf
        """When the last write ended, in the loop's time."""
        self._took = 0.0
        self._sooner = asyncio.Event()
        self._stack = AsyncExitStack()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recorder")

    async def __aenter__(self) -> Self:
        self._stack.callback(self._file.close)
        self._stack.callback(self._thread.shutdown)
        self._stack.push_async_callback(self._write_rest)
        self._group = await asyncio.TaskGroup().__aenter__()
        self._stack.push_async_exit(self._close_group)
        keeper = self._group.create_task(self._keep(), name=f"recorder of {self._file.path.name}")
        self._stack.callback(keeper.cancel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    async def _close_group(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the task group. It would wrap an exception of the body, which is none of its own."""
        if isinstance(error, Exception):
            kind = error = trace = None
        await self._group.__aexit__(kind, error, trace)

    def __call__(self, event: Event) -> None:
        """Take that something has happened. The transcript has heard of it already."""
        if isinstance(event, _UNRECORDED):
            return
        rest = self._soon if isinstance(event, _ENDS) else self._every
        if rest < self._rest:
            self._rest = rest
            self._sooner.set()

    @property
    def _due(self) -> float:
        """When to write next, in the loop's time; infinite while there is nothing new."""
        return math.inf if self._rest == math.inf else self._ended + max(self._rest, _SHARE * self._took)

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if self._due <= loop.time():
                await self._write()
                continue
            self._sooner.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(None if self._due == math.inf else self._due):
                    await self._sooner.wait()

    async def _write_rest(self) -> None:
        """Write what is new. Last of all the thread is joined: a write that was begun is always finished."""
        if self._rest < math.inf or self.error:
            await self._write()

    async def _write(self) -> None:
        """Write the transcript as it is now. Cancelled or not, the thread finishes what it was given."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        settled = self._transcript.take_settled()
        work = loop.run_in_executor(self._thread, self._file.write, snapshot(self._transcript), settled)
        work.add_done_callback(lambda work: self._landed(work, began))
        rest, self._rest = self._rest, math.inf
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self._rest = rest
            raise

    def _landed(self, work: asyncio.Future[OSError | None], began: float) -> None:
        self._ended = asyncio.get_running_loop().time()
        self._took = self._ended - began
        if work.exception():  # a bug of ours: it comes out of the task that waits for this work
            return
        error = work.result()
        if error is None:
            self.error = None
            self.writes += 1
            return
        known = self.error
        self.error = RecordError(
            f"The notebook {self._file.path} cannot be written ({error.strerror or error}). The run goes on; "
            "make room or make the folder writable, and the next write will hold everything."
        )
        if known is None:
            self._report(self.error)


def snapshot(transcript: Transcript) -> Transcript:
    """Copy what can change of a transcript; what is frozen is shared.

    Args:
        transcript: Read in the loop's thread.

    Returns:
        A transcript for another thread.
    """
    runs = [
        replace(
            run,
            resumed=list(run.resumed),
            turns=[
                replace(
                    turn,
                    notes=list(turn.notes),
                    compactions=list(turn.compactions),
                    blocks=[replace(record, outputs=record.outputs.copy()) for record in turn.blocks],
                )
                for turn in run.turns
            ],
        )
        for run in transcript.runs
    ]
    return replace(transcript, runs=runs, entries=list(transcript.entries), blocks={})

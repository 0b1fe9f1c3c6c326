"""Whether a block may run: asked when its turn has come, and before anything of it does.

Comes in: a block, and who decides. Goes out: an outcome where it does not run, or None where it may, maybe with other
code. What decides, and by what, is not known here. While it takes its time, the runner keeps the block's place, so that
others of the same reply that need what it makes wait for it; all others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from codeact_kernel.blocks import Job, Outcome
from codeact_kernel.errors import KernelError, RecordError
from codeact_kernel.protocols import PlaceKeeper, Runner
from codeact_kernel.supervisor.live import BlockWatch

Verdict = Job | Outcome
"""The job that runs, or how it ends without."""
Admit = Callable[[Job], Verdict | Awaitable[Verdict]]
"""Decides about a job: at once, or in its own time. Contract: may be cancelled; raises
nothing but a `RecordError`, which is a no."""


def let_all(job: Job) -> Job:
    """Let every job run."""
    return job


async def admitted(
    watch: BlockWatch, admit: Admit, runner: Runner | None, group: asyncio.TaskGroup
) -> Outcome | None:
    """Ask whether a block may run.

    Args:
        watch: The block. It is changed where other code shall run.
        admit: Decides.
        runner: Who would run it; keeps its place, where it can.
        group: In which places are kept and given up, in the order in which blocks are launched.

    Returns:
        The outcome where it does not run, or None where it may.
    """
    keeper: PlaceKeeper | None = runner if isinstance(runner, PlaceKeeper) else None
    kept: _Kept | None = None
    verdict: Verdict
    try:
        said = admit(watch.job)
        if isinstance(said, Job | Outcome):
            verdict = said
        else:
            kept = None if keeper is None else _Kept(keeper, watch.job, group)
            verdict = await _until_decided(watch, said, kept)
        if isinstance(verdict, Job):
            watch.change(verdict.block)
    except RecordError as error:  # what was decided cannot be noted, so it counts for nothing
        verdict = Outcome("rejected", error.message)
    if kept is not None:
        await kept.let_go()
    if isinstance(verdict, Job):
        return None
    if keeper is not None:
        group.create_task(_quietly(keeper.drop(watch.job)))
    return verdict


class _Kept:
    """A block's place, from the moment at which somebody has to be asked.

    It is kept in a task, as runs are: what was launched before this block is then sent before it.
    """

    def __init__(self, keeper: PlaceKeeper, job: Job, group: asyncio.TaskGroup) -> None:
        self._there = asyncio.Event()
        self.lost: asyncio.Task[Outcome] = group.create_task(self._keep(keeper, job))
        """Done when the block has ended without a decision, since what it needs will not be made."""

    async def _keep(self, keeper: PlaceKeeper, job: Job) -> Outcome:
        ended = None
        try:
            with suppress(KernelError):
                ended = await keeper.hold(job)
        finally:
            self._there.set()
        if ended is None:
            await asyncio.Event().wait()  # until it is let go
        assert ended is not None
        return await ended()

    async def let_go(self) -> None:
        """Wait until the place is there, and for no more."""
        await self._there.wait()
        self.lost.cancel()
        await asyncio.wait({self.lost})


async def _until_decided(watch: BlockWatch, verdict: Awaitable[Verdict], kept: _Kept | None) -> Verdict:
    deciding = asyncio.ensure_future(verdict)
    watch.is_judged = True
    try:
        ends: set[asyncio.Future[Any]] = {deciding, watch.asked, *([] if kept is None else [kept.lost])}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if deciding.done():
            return deciding.result()
        if watch.asked.done():
            return watch.asked.result().of(Outcome(error="it still waited for approval and has not run"))
        assert kept is not None
        return kept.lost.result()
    finally:
        watch.is_judged = False
        if not deciding.done():
            deciding.cancel()
            await asyncio.wait({deciding})


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    """Do something for which a kernel is needed; where that is gone, so are those that would have waited."""
    with suppress(KernelError):
        await work

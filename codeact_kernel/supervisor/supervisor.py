"""Starts, watches and ends blocks.

Comes in: jobs, and wishes to cancel them. Goes out: the events of each block in order (queued, started,
output, heartbeats, finished), the full output of every block, and a picture of what is alive. It knows
runners, and no kernel.

Each block has two tasks in one task group: its *run*, which is the runner's work, and its *life*, which sees
the block from its launch to its result. A run that does not react to being interrupted can so be left behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeVar

from codeact_kernel.blocks import AgentBlock, BlockResult, CodeBlock, Job, Outcome, format_duration
from codeact_kernel.errors import KernelDied, KernelError, ToolError
from codeact_kernel.events import CancelAsked
from codeact_kernel.masking import Mask
from codeact_kernel.protocols import Observer, Runner, Watcher
from codeact_kernel.supervisor.admission import Admit, admitted, let_all
from codeact_kernel.supervisor.archive import Archive
from codeact_kernel.supervisor.deadline import Ending, stop, until_due
from codeact_kernel.supervisor.heartbeat import beat
from codeact_kernel.supervisor.live import BlockWatch, LiveBlock
from codeact_kernel.supervisor.order import Ended, wait_for_order
from codeact_kernel.supervisor.shelf import Shelf
from codeact_kernel.supervisor.tape import Tape

T = TypeVar("T")

RECENT = 100
"""Blocks that have ended of which all stays in memory; ours: what a model still asks for is seldom older."""


@dataclass(frozen=True, slots=True)
class SupervisorSettings:
    """What the user may set."""

    default_timeout: float | None = 1800.0
    """Seconds for a `run_code` block that names no timeout; None for no limit. Sub-agents have none."""
    grace: float = 5.0
    """Seconds from the first interrupt within which a block that has to end has ended, by whatever means."""


class Supervisor:
    """Owns all blocks of an agent. An `async with`: leaving it ends what lives, within `grace` seconds.

    An exception of a runner that is no `KernelError` is a bug: it ends everything here and comes out of the
    `async with` in an exception group. An exception of the body comes out as it is.

    Args:
        runners: Who runs which kind of block. A block of another kind is rejected.
        emit: Gets every event, at once and in order.
        wall: The time in seconds since the epoch.
        settings: Timeouts and intervals.
        folder: Where outputs that are too long for memory go; None for a temporary folder.
        mask: Knows the secrets that are taken out of outputs and outcomes.
        admit: Decides about each block when its turn has come; None lets all run.
    """

    def __init__(
        self,
        runners: Mapping[type[CodeBlock] | type[AgentBlock], Runner],
        emit: Observer,
        *,
        wall: Callable[[], float] = time.time,
        settings: SupervisorSettings | None = None,
        folder: Path | None = None,
        mask: Mask | None = None,
        admit: Admit | None = None,
    ) -> None:
        self._mask = Mask() if mask is None else mask
        self._admit = admit or let_all
        self._runners = runners
        self._emit = emit
        self._wall = wall
        self._settings = settings or SupervisorSettings()
        self._watches: dict[str, BlockWatch] = {}
        """Those that live, and the latest that have ended."""
        self._latest: dict[str, str] = {}
        """By name the settled id, where a name was used again."""
        self._results: dict[str, BlockResult] = {}
        self._lives: set[asyncio.Task[None]] = set()
        self._runs: dict[str, asyncio.Task[Outcome]] = {}
        self._stack = AsyncExitStack()
        self.shelf = Shelf(folder)
        """Where long outputs go; its folder may be set at any time, and counts for what gets long from then on."""
        self._archive = Archive(lambda: self.shelf.place("older"))

    async def __aenter__(self) -> Self:
        self._stack.callback(self.shelf.close)
        self._stack.callback(self._close_all)
        self._group = await asyncio.TaskGroup().__aenter__()
        self._stack.push_async_exit(self._close_group)
        self._stack.push_async_callback(self._end_all)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    def launch(self, job: Job, turn: int) -> None:
        """Take a block in hand; returns at once.

        Args:
            job: The block with its settled id, which no other job of this supervisor may have had.
            turn: The turn that it belongs to.
        """
        if job.id in self._watches or job.id in self._archive:
            raise ValueError(f"the id {job.id!r} was launched before")
        before = {name: self._end_of(name) for name in job.block.after or ()}
        watch = BlockWatch(job, turn, self._timeout(job), self._emit, self._wall, self.shelf, self._mask)
        self._know(watch)
        self._begin(self._live(watch, before), watch)

    def recall(self, result: BlockResult, turn: int) -> None:
        """Know a block that ended in an earlier process, as if it had ended here. No event tells of it.

        Args:
            result: Its end, with its outputs.
            turn: The turn that it belonged to.
        """
        watch = self._known_already(Job(result.id, result.block, turn), turn, result.queued)
        watch.log.go_on(result.outputs, 0, ())
        watch.ended.set_result(result)
        self._keep(result)

    def take_up(self, record: BlockResult, turn: int, length: int) -> asyncio.Future[BlockResult]:
        """Take a block in hand that an earlier process has launched, and that lives; `launch` for what runs already.

        Its runner has to know it. Its time goes on, also through the time in which nobody was there.

        Args:
            record: What is kept of it: its outputs, and when it was queued and started.
            turn: The turn that it belongs to.
            length: The characters that it has put out as text.

        Returns:
            Done when it has ended.
        """
        watch = self._known_already(Job(record.id, record.block, turn), turn, record.queued)
        try:
            watch.log.go_on(record.outputs, length, self.shelf.found(record.id))
        except OSError:
            watch.log.go_on(record.outputs, 0, ())
        if record.started is not None:
            watch.take_up(record.started, record.outcome.lane)
        self._begin(self._taken_up(watch), watch)
        return watch.ended

    async def _taken_up(self, watch: BlockWatch) -> None:
        self._finish(watch, await self._run(watch))

    def watcher(self, job_id: str) -> Watcher | None:
        """Who hears of a block that is known; None where it is not, or ended long ago.

        Args:
            job_id: Its settled id.
        """
        return self._watches.get(job_id)

    def _known_already(self, job: Job, turn: int, queued: float) -> BlockWatch:
        watch = BlockWatch(
            job, turn, self._timeout(job), self._emit, self._wall, self.shelf, self._mask, queued
        )
        self._know(watch)
        return watch

    def _timeout(self, job: Job) -> float | None:
        is_code = isinstance(job.block, CodeBlock)
        return self._settings.default_timeout if job.block.timeout is None and is_code else job.block.timeout

    def _begin(self, living: Coroutine[Any, Any, None], watch: BlockWatch) -> None:
        life = self._group.create_task(living, name=f"life of block {watch.job.id}")
        self._lives.add(life)
        life.add_done_callback(self._lives.discard)

    def cancel(self, name: str, reason: str) -> bool:
        """Ask a block to end; its result comes as any other, with status "cancelled".

        Args:
            name: A block's id; of a reused id the latest.
            reason: Who or what wants it, for the model ("by the user").

        Returns:
            Whether there is such a block and it has not ended.
        """
        watch = self._find(name)
        if watch is None or watch.ended.done():
            return False
        watch.ask(Ending("cancelled", f"cancelled: {reason}"))
        self._emit(CancelAsked(watch.job.id, reason, self._wall()))
        return True

    def slow_down(self, ids: Iterable[str]) -> None:
        """Report blocks less often, because the model did nothing about their last reports.

        Args:
            ids: Their settled ids.
        """
        for id_ in ids:
            if (rhythm := self._watches[id_].rhythm) is not None:
                rhythm.slow_down()

    def restore_heartbeats(self) -> None:
        """Report each block as often as the model asked."""
        for watch in self._watches.values():
            if watch.rhythm is not None:
                watch.rhythm.restore()

    @contextmanager
    def standing(self, name: str | None) -> Iterator[None]:
        """Let a block's deadline stand still meanwhile: its code waits for a person.

        Args:
            name: Its settled id; where there is no such block, nothing stands still.
        """
        watch = self._watches.get(name or "")
        if watch is None:
            yield
            return
        watch.stand("a person")
        try:
            yield
        finally:
            watch.go_on("a person")

    async def settled(self) -> None:
        """Wait until no block is alive."""
        while self._lives:
            await asyncio.wait(self._lives)

    def output(self, name: str) -> str:
        """All that a block has put out so far, late output included, as one text, however long.

        Args:
            name: A block's id; of a reused id the latest.

        Raises:
            ToolError: If no block has that id, or if the file that holds its output is gone.
        """
        return self._read(name, lambda tape: tape.read())

    def page(
        self, name: str, start: int = 0, stop: int | None = None, *, lines: bool = False
    ) -> dict[str, Any]:
        """A part of what `output` gives, as `Tape.page` has it.

        Args:
            name: As in `output`.
            start: The first character.
            stop: The first character after it; None for the end.
            lines: Whether start and stop count lines instead.

        Raises:
            ToolError: As in `output`.
        """
        return self._read(name, lambda tape: tape.page(start, stop, lines=lines))

    def _read(self, name: str, read: Callable[[Tape], T]) -> T:
        job_id = self._latest.get(name, name)
        if job_id not in self._watches and job_id not in self._archive:
            known = ", ".join(self._watches) or "none yet"
            raise ToolError(f"there is no block {name!r}; the latest are: {known}")
        watch = self._watches.get(job_id)
        try:
            return read(self._archive.tape(job_id) if watch is None else watch.log.tape)
        except OSError as error:
            raise ToolError(f"the output of {name!r} can no longer be read: {error}") from None

    @property
    def live(self) -> list[LiveBlock]:
        """The blocks that have not ended, oldest first."""
        return [watch.picture for watch in self._watches.values() if not watch.ended.done()]

    @property
    def stuck(self) -> list[LiveBlock]:
        """Blocks whose end was reported though their code still runs, because no interrupt reached it."""
        return [self._watches[id_].picture for id_ in self._runs if self._watches[id_].ended.done()]

    @property
    def results(self) -> Mapping[str, BlockResult]:
        """The latest results, by settled id, in the order in which the blocks ended."""
        return MappingProxyType(self._results)

    def _find(self, name: str) -> BlockWatch | None:
        return self._watches.get(self._latest.get(name, name))

    def _end_of(self, name: str) -> Ended | None:
        job_id = self._latest.get(name, name)
        if job_id in self._watches:
            return self._watches[job_id].ended
        if job_id not in self._archive:
            return None
        ended: Ended = asyncio.get_running_loop().create_future()
        ended.set_result(BlockResult(job_id, CodeBlock(""), Outcome(self._archive.status(job_id))))
        return ended

    async def _live(self, watch: BlockWatch, before: Mapping[str, Ended | None]) -> None:
        """A block's life: its order, whether it may, its run, its end."""
        outcome = await wait_for_order(watch, before)
        if outcome is None:
            runner = self._runners.get(type(watch.job.block))
            outcome = await admitted(watch, self._admit, runner, self._group)
        self._finish(watch, outcome or await self._run(watch))

    def _finish(self, watch: BlockWatch, outcome: Outcome) -> None:
        self._keep(watch.finish(outcome))

    def _know(self, watch: BlockWatch) -> None:
        job = watch.job
        self._watches[job.id] = watch
        if job.name != job.id:
            self._latest[job.name] = job.id

    def _keep(self, result: BlockResult) -> None:
        self._results[result.id] = result
        for job_id in list(self._results)[:-RECENT]:
            # What still runs may put out more.
            if job_id not in self._runs and self._archive.take(self._watches[job_id]):
                del self._results[job_id], self._watches[job_id]

    async def _run(self, watch: BlockWatch) -> Outcome:
        """Run a block until it has ended, by itself or not, or is left behind."""
        job = watch.job
        runner = self._runners.get(type(job.block))
        if runner is None:
            return Outcome("rejected", f"nothing here runs a {type(job.block).__name__}")
        run = self._group.create_task(_outcome(runner, watch), name=f"run of block {job.id}")
        self._runs[job.id] = run
        run.add_done_callback(lambda _: self._runs.pop(job.id))
        beats = self._beat(watch)
        try:
            ending = await until_due(run, watch.clock, watch.asked)
        finally:
            if beats:
                beats.cancel()
        if ending is None:
            return run.result()
        watch.ask(ending)
        settings = self._settings
        if await stop(run, partial(runner.interrupt, job.id), grace=settings.grace):
            return ending.of(run.result())
        return ending.of(Outcome(notes=(_left_behind(settings.grace),)))

    def _beat(self, watch: BlockWatch) -> asyncio.Task[None] | None:
        if watch.rhythm is None:
            return None
        beats = beat(watch.began, watch.rhythm, watch.log, watch.report)
        return self._group.create_task(beats, name=f"heartbeats of block {watch.job.id}")

    async def _close_group(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the task group. It would wrap an exception of the body, which is none of its own."""
        if isinstance(error, Exception):
            kind = error = trace = None
        await self._group.__aexit__(kind, error, trace)

    async def _end_all(self) -> None:
        """End what lives, then cancel what was left behind."""
        for watch in self._watches.values():
            if not watch.ended.done():
                watch.ask(Ending("cancelled", "cancelled: the run ended"))
        await self.settled()
        for run in self._runs.values():
            run.cancel()

    def _close_all(self) -> None:
        """Give an end to blocks whose life was broken off, so that no record shows them as alive."""
        for watch in list(self._watches.values()):
            if not watch.ended.done():
                self._finish(watch, Outcome("cancelled", "cancelled: the run was broken off"))


async def _outcome(runner: Runner, watch: BlockWatch) -> Outcome:
    """Run a job; a kernel that fails is an outcome for the model."""
    try:
        return await runner.run(watch.job, watch)
    except KernelDied as died:
        return Outcome("died", died.message.rstrip(".") + "." + died.loss)
    except KernelError as error:
        return Outcome("died", error.message)


def _left_behind(grace: float) -> str:
    return (
        f"it did not react to interrupts for {format_duration(grace)} and its code still runs; "
        "what it puts out from now on is late output"
    )

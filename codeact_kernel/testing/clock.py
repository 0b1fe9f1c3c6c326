"""A clock that jumps, so that ten silent minutes pass in a millisecond.

Comes in: a coroutine that sleeps, waits and sets deadlines with plain asyncio. Goes out: what it returns, at
once. Code under test needs no clock of its own: `asyncio.sleep`, `asyncio.timeout` and `loop.time()` simply
follow this loop, and `wall` is the matching `Callable[[], float]` for code that takes a wall clock.

    @jumping
    async def test_a_silent_block_is_not_reported():
        await asyncio.sleep(600)

Time stands still while anything is ready to run and while a thread of `asyncio.to_thread` works; otherwise it
jumps to the next timer. Sockets and pipes are polled but never waited for while a timer is set, so code that
talks to a real process belongs on a real loop.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

__all__ = ["EPOCH", "JumpingLoop", "jumping", "run_jumping", "wall"]

EPOCH = 1_767_268_800.0
"""Where the wall clock of every jumping loop begins: 2026-01-01 12:00:00 UTC, in seconds since the epoch."""

PATIENCE = 5.0
"""Real seconds to wait for something from outside (a foreign thread, a signal) before we call it a hang."""

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _JumpingSelector(selectors.DefaultSelector):
    """Polls instead of waiting, and moves `now` by what it would have waited."""

    now = 0.0
    threads = 0
    """Threads at work on the loop's behalf."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.threads:
            return super().select(None if timeout is None or timeout > 0 else 0)
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is not None:
            self.now += timeout
            return ready
        ready = super().select(PATIENCE)
        if not ready and len(self.get_map()) == 1:  # the loop's own wake-up socket is all that is left
            raise RuntimeError("every task waits, no timer is set: this would hang for ever")
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` jumps to the next timer when nothing else is ready."""

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Seconds since the loop was made, as its own clock has it."""
        return self._clock.now

    def wall(self) -> float:
        """Seconds since the epoch, in step with `time()`; begins at `EPOCH`."""
        return EPOCH + self._clock.now

    def stall(self, seconds: float) -> None:
        """Let time pass with nobody running, as when something keeps the loop busy.

        Args:
            seconds: How long.
        """
        self._clock.now += seconds

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As in asyncio; time stands still until the thread is done (or nobody waits for it any more)."""
        future = super().run_in_executor(executor, func, *args)
        self._clock.threads += 1
        future.add_done_callback(self._thread_done)
        return future

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """As in asyncio; joining the threads takes real time, so the limit on it must not be jumped over."""
        with self._standing_still():
            await super().shutdown_default_executor(*args, **kwargs)

    def _thread_done(self, _: asyncio.Future[Any]) -> None:
        self._clock.threads -= 1

    @contextmanager
    def _standing_still(self) -> Iterator[None]:
        self._clock.threads += 1
        try:
            yield
        finally:
            self._clock.threads -= 1


def wall() -> float:
    """The wall clock of the jumping loop that runs now, in seconds since the epoch.

    Raises:
        RuntimeError: If no loop runs, or another kind.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, JumpingLoop):
        raise RuntimeError("wall() tells the time of a JumpingLoop: use run_jumping or @jumping")
    return loop.wall()


def run_jumping(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a fresh jumping loop, as `asyncio.run` does on a plain one.

    Args:
        main: The coroutine.

    Returns:
        What it returns.

    Raises:
        RuntimeError: If every task waits for another and no timer is set: the test would hang.
    """
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main)


def jumping(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Make a coroutine function a plain one that runs on a jumping loop; fixtures and `@given` go on working.

    Args:
        test: A test, or a fixture's body, written with `async def`.
    """

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_jumping(test(*args, **kwargs))

    return run

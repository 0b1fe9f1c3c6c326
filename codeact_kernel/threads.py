"""Threads for calls that may block, and that nothing waits for at the end of the process.

Comes in: functions. Goes out: futures of their results.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Work = Callable[[], Callable[[], object]]
"""Does it, and gives what tells who waits."""

THREADS = 32
"""The most that asyncio's own executor has, whatever the machine."""


class DaemonThreads(ThreadPoolExecutor):
    """Threads that do not keep the process: a tool that never returns must not hang the exit.

    `ThreadPoolExecutor`, which asyncio asks for, waits for its threads whatever it is told.
    """

    def __init__(self) -> None:
        super().__init__(THREADS)
        self._waiting: SimpleQueue[_Work] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in a thread; as in `Executor`."""
        future: Future[T] = Future()

        def work() -> Callable[[], object]:
            if not future.set_running_or_notify_cancel():
                return _nothing
            try:
                return partial(future.set_result, fn(*args, **kwargs))
            except BaseException as error:
                return partial(future.set_exception, error)

        self._put(work)
        return future

    def run(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Call a function in a thread, in the context of the caller: a third of the time of `asyncio.to_thread`.

        Args:
            fn: The function.
            *args: Its arguments.
            **kwargs: Its keyword arguments.

        Returns:
            What to await for its result. Cancelled before its turn, it never runs; later it goes on for nobody. What
            would end the loop, a SystemExit say, comes as a `RuntimeError`.
        """
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        future: asyncio.Future[T] = loop.create_future()

        def work() -> Callable[[], object]:
            if future.cancelled():
                return _nothing
            try:
                result = context.run(fn, *args, **kwargs)
            except Exception as error:
                return partial(_tell, loop, _fail, future, error)
            except BaseException as error:
                return partial(_tell, loop, _fail, future, RuntimeError(f"{type(error).__name__}: {error}"))
            return partial(_tell, loop, _settle, future, result)

        self._put(work)
        return future

    def _put(self, work: _Work) -> None:
        self._waiting.put(work)
        if not self._idle.acquire(blocking=False) and self._started < THREADS:
            self._started += 1
            threading.Thread(target=self._serve, name=f"tool-{self._started}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            tell = self._waiting.get()()
            # First: who is told may have the next call ready before this thread goes on, and another one is cold.
            self._idle.release()
            tell()


def _nothing() -> None:
    """Nobody waits."""


def _tell(loop: asyncio.AbstractEventLoop, *what: Any) -> None:
    with suppress(RuntimeError):  # the loop is closed, and nobody waits
        loop.call_soon_threadsafe(*what)


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):  # which a future does not take
        error = RuntimeError(f"StopIteration: {error}")
    future.set_exception(error)

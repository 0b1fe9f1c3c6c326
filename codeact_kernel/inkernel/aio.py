"""asyncio for code that shares one loop with other blocks.

Comes in: `asyncio.run` calls of user code, in any thread. Goes out: the coroutine, run where it can run.

Objects that belong to a loop (sessions, queues, tasks) live on between blocks because all blocks with await
share the async lane's loop. So `asyncio.run` in a block without await runs its coroutine there, too, and
waits; in the lane itself, where it would block its own loop for ever, it gets a thread and a loop of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from codeact_kernel.inkernel.request import current

if TYPE_CHECKING:
    from codeact_kernel.inkernel.lanes import Home

T = TypeVar("T")

POLL = 0.05
"""Seconds between looks while waiting: an asynchronous exception lands only between bytecodes."""


def adopt_asyncio(home: Callable[[], Home]) -> None:
    """Make `asyncio.run` of blocks work in every lane.

    Args:
        home: Gives the async lane's loop and its thread.
    """
    stock = asyncio.run

    def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None, **options: Any) -> T:
        """Run a coroutine to its end, in the loop that all blocks share."""
        if current.get() is None or not asyncio.iscoroutine(main):
            return stock(main, debug=debug, **options)
        request = current.get()
        if request is not None and request.home and request.home.thread is threading.current_thread():
            return _in_thread(stock, main, debug, options)
        return _in_loop(home().loop, main)

    asyncio.run = asyncio.runners.run = run


class Arrival(Generic[T]):
    """What a thread waits for, interruptibly in every lane.

    A plain lock is its signal: an exception that lands in the wait breaks nothing. In the wait of a `Condition`, which
    futures have, one may land where the lock is not held that is released next.
    """

    __slots__ = ("_there", "_what")

    def __init__(self) -> None:
        self._there = threading.Lock()
        self._there.acquire()

    def set(self, what: T) -> None:
        """Hand it to who waits. Contract: called once."""
        self._what = what
        self._there.release()

    def wait(self) -> T:
        """Wait for it."""
        while not self._there.acquire(timeout=POLL):
            pass
        return self._what


def _in_loop(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in another thread's loop, and wait for its end.

    With no future of `concurrent.futures` between them: an interrupt that lands while this thread takes the lock of one
    leaves it taken, and the other thread's loop would wait for it for ever.
    """
    done: Arrival[asyncio.Task[T]] = Arrival()
    started: list[asyncio.Task[T]] = []

    def start() -> None:
        started.append(loop.create_task(main))
        started[0].add_done_callback(done.set)

    def stop() -> None:
        if started:
            started[0].cancel()
            # Looked at, since nobody waits for it any more.
            started[0].add_done_callback(lambda task: task.cancelled() or task.exception())
        else:
            main.close()

    try:
        loop.call_soon_threadsafe(start)
        return done.wait().result()
    except BaseException:
        loop.call_soon_threadsafe(stop)
        raise


def _in_thread(stock: Any, main: Coroutine[Any, Any, T], debug: bool | None, options: dict[str, Any]) -> T:
    done: Arrival[Callable[[], T]] = Arrival()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(stock, main, debug=debug, **options)
        except BaseException as exception:
            done.set(partial(_raise, exception))
        else:
            done.set(lambda: result)

    threading.Thread(target=work, name="asyncio.run", daemon=True).start()
    return done.wait()()


def _raise(exception: BaseException) -> Any:
    raise exception

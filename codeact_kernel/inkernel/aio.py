"""asyncio for code that shares one loop with other blocks.

Comes in: `asyncio.run` calls of user code, in any thread. Goes out: the coroutine, run where it can run.

Objects that belong to a loop (sessions, queues, tasks) live on between blocks because all blocks with await
share the async lane's loop. So `asyncio.run` in a block without await runs its coroutine there, too, and
waits; in the lane itself, where it would block its own loop for ever, it gets a thread and a loop of its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from codeact_kernel.inkernel.request import current

T = TypeVar("T")

POLL = 0.05
"""Seconds between looks while waiting: an asynchronous exception lands only between bytecodes."""


def adopt_asyncio(loop: asyncio.AbstractEventLoop, lane: threading.Thread) -> None:
    """Make `asyncio.run` of blocks work in every lane.

    Args:
        loop: The async lane's loop.
        lane: Its thread.
    """
    stock = asyncio.run

    def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None, **options: Any) -> T:
        """Run a coroutine to its end, in the loop that all blocks share."""
        if current.get() is None or not asyncio.iscoroutine(main):
            return stock(main, debug=debug, **options)
        if threading.current_thread() is lane:
            return _in_thread(stock, main, debug, options)
        return wait_for(asyncio.run_coroutine_threadsafe(main, loop))

    asyncio.run = asyncio.runners.run = run


def wait_for(future: concurrent.futures.Future[T]) -> T:
    """Wait for a future so that an interrupt gets through in every lane.

    Args:
        future: What to wait for; it is cancelled when the wait is interrupted.

    Returns:
        Its result.
    """
    try:
        while True:
            done, _ = concurrent.futures.wait([future], timeout=POLL)
            if done:
                return future.result()
    except BaseException:
        future.cancel()
        raise


def _in_thread(stock: Any, main: Coroutine[Any, Any, T], debug: bool | None, options: dict[str, Any]) -> T:
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(stock, main, debug=debug, **options))
        except BaseException as exception:
            future.set_exception(exception)

    threading.Thread(target=work, name="asyncio.run", daemon=True).start()
    return wait_for(future)

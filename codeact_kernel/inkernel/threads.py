"""Threads that a block starts belong to it.

Comes in: threads and pools of user code. Goes out: threads that print and display as the block that started
them (or that gave the pool its work), and that an interrupt of that block reaches.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import thread as pools
from typing import Any

from codeact_kernel.inkernel.forked import leave_if_copy
from codeact_kernel.inkernel.guard import Guard, hold_here
from codeact_kernel.inkernel.request import Request, current

_local = threading.local()
_PLUMBING = ("asyncio.", "concurrent.futures.process", "multiprocessing.")
"""Modules whose own threads serve what blocks start: event loops, waits for children, queues. An interrupt that
landed there would leave the block waiting for ever."""


def adopt_threads() -> None:
    """From now on threads belong to the request whose code starts them, and pools' work to who gives it."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_as_current(self: threading.Thread) -> None:
        request = current.get()
        # A pool's thread outlives the block that happened to need it first; its work is what belongs to blocks.
        if request is not None and getattr(self, "_target", None) is not pools._worker:
            run, run_as = self.run, _serve_as if _is_plumbing(self) else _live_as
            self.run = lambda: run_as(request, run)  # type: ignore[method-assign]
        hold_here(start, self)

    def submit_as_current(
        self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        request = current.get()
        if request is None:
            return submit(self, fn, *args, **kwargs)
        return submit(self, _run_as, request, fn, *args, **kwargs)

    threading.Thread.start = start_as_current  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = submit_as_current  # type: ignore[method-assign, assignment]


def interrupt_threads(request: Request, *, insisting: bool = False) -> None:
    """Interrupt what runs in the threads of a request.

    Args:
        request: Whose threads.
        insisting: As in `Guard.interrupt`.
    """
    spared = {thread.ident for thread in list(request.spared_threads)}
    for guard in list(request.thread_guards):
        if guard.thread_of(request) not in spared:
            guard.interrupt(request, insisting=insisting)


def _is_plumbing(thread: threading.Thread) -> bool:
    target = getattr(thread, "_target", None) or type(thread)
    # The workers of multiprocessing's thread pools run user code.
    return target.__module__.startswith(_PLUMBING) and target.__name__ != "worker"


def _serve_as(request: Request, function: Callable[[], Any]) -> None:
    current.set(request)
    function()


def _live_as(request: Request, function: Callable[[], Any]) -> None:
    # For the thread's whole life: what is said of an exception that ends it is its block's, too.
    current.set(request)
    _run_as(request, function)


def _run_as(request: Request, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    guard: Guard = _local.__dict__.setdefault("guard", Guard())
    request.thread_guards.add(guard)
    token = current.set(request)
    try:
        return guard.call(request, lambda: function(*args, **kwargs))
    finally:
        leave_if_copy(sys.exception())
        current.reset(token)

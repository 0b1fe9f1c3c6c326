"""The three places where a request can run: the main thread, the async lane's loop, a pool of workers.

Comes in: a request that may start now. Goes out: a call of the executor in the lane's thread. Lanes know
nothing of order; the router hands them only what may start.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from codeact_kernel.inkernel.guard import Guard, GuardedCoroutine, MainGuard
from codeact_kernel.inkernel.request import Request, current

RunSync = Callable[[Request], None]
RunAsync = Callable[[Request], Coroutine[Any, Any, None]]
MakeContext = Callable[[], contextvars.Context]

SECOND_STAGE = 0.25
"""Seconds after which an async block that still sits in synchronous code is interrupted in its thread."""


class Lane(Protocol):
    """A place to run in."""

    name: str

    def submit(self, request: Request) -> None:
        """Run a request. Contract: called by the router, from any thread, under its lock; returns at once."""

    def interrupt(self, request: Request) -> None:
        """Interrupt a request that this lane has been given. Contract: called in the control thread."""


class MainLane:
    """The main thread: one request at a time, in the order of their coming.

    Args:
        call_soon: Schedules a function in the main thread's loop, from any thread.
        guard: The main thread's guard.
        run: The executor.
    """

    name = "main"

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], None], guard: MainGuard, run: RunSync
    ) -> None:
        self._call_soon = call_soon
        self._guard = guard
        self._run = run
        self.context = contextvars.copy_context()
        """What all requests here run in, one after the other; the other lanes' requests get copies of it."""

    def submit(self, request: Request) -> None:
        """As in `Lane`."""
        request.guard = self._guard
        self._call_soon(lambda: self.context.run(self._enter, request))

    def interrupt(self, request: Request) -> None:
        """As in `Lane`."""
        self._guard.interrupt(request)

    def _enter(self, request: Request) -> None:
        # One context for all, so that a ContextVar that a block sets is there in the next.
        token = current.set(request)
        try:
            self._run(request)
        finally:
            current.reset(token)


class WorkerLane:
    """Threads for further requests without await while the main thread is busy.

    A thread is made when none is free, and kept. Each is a lane of its own to its guard.

    Args:
        run: The executor.
        context: Makes the context that a request runs in.
    """

    name = "worker"

    def __init__(self, run: RunSync, context: MakeContext) -> None:
        self._run = run
        self._context = context
        self._jobs: queue.SimpleQueue[tuple[Request, contextvars.Context] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0
        self._made = 0

    def submit(self, request: Request) -> None:
        """As in `Lane`."""
        with self._lock:
            self._jobs.put((request, self._context()))
            if self._free > 0:
                self._free -= 1
                return
            self._made += 1
            thread = threading.Thread(target=self._work, name=f"worker-{self._made}", daemon=True)
            # Whatever request's end made room for this one: the thread is nobody's.
            contextvars.Context().run(thread.start)

    def interrupt(self, request: Request) -> None:
        """As in `Lane`."""
        if request.guard is not None:
            request.guard.interrupt(request)

    def _work(self) -> None:
        guard = Guard()
        while (job := self._jobs.get()) is not None:
            request, context = job
            request.guard = guard
            try:
                context.run(self._enter, request)
            finally:
                with self._lock:
                    self._free += 1

    def _enter(self, request: Request) -> None:
        current.set(request)
        self._run(request)


class AsyncLane:
    """One thread with one event loop, in which all requests with top-level await are tasks.

    Args:
        run: The executor for requests with await.
        context: Makes the context that a request runs in.
    """

    name = "async"

    def __init__(self, run: RunAsync, context: MakeContext) -> None:
        self._run = run
        self._context = context
        self.guard = Guard()
        self.loop = asyncio.new_event_loop()
        self.loop.set_task_factory(self._make_task)
        self.thread = threading.Thread(target=self._serve, name="async lane", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    def submit(self, request: Request) -> None:
        """As in `Lane`."""
        request.guard = self.guard
        context = self._context()
        context.run(current.set, request)
        self.loop.call_soon_threadsafe(self._begin, request, context=context)

    def interrupt(self, request: Request) -> None:
        """As in `Lane`: cancel its tasks; what still sits in synchronous code a moment later is interrupted
        in the thread.
        """  # noqa: D205
        self.loop.call_soon_threadsafe(self._cancel, request)
        threading.Timer(SECOND_STAGE, self._second_stage, (request,)).start()

    def _begin(self, request: Request) -> None:
        request.task = asyncio.Task(self._run(request), loop=self.loop)

    def _cancel(self, request: Request) -> None:
        for task in list(request.tasks):
            task.cancel()
        if request.awaiting and request.task is not None:
            request.task.cancel()

    def _second_stage(self, request: Request) -> None:
        if request.ended is None:
            self.guard.interrupt(request)

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        request = current.get()
        if request is None or not asyncio.iscoroutine(coro):
            return asyncio.Task(coro, loop=loop, **options)
        task = asyncio.Task(GuardedCoroutine(self.guard, request, coro), loop=loop, **options)
        request.tasks.add(task)
        return task

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        while True:
            try:
                self.loop.run_forever()
                return
            except BaseException as exception:
                # A callback of user code raised SystemExit or KeyboardInterrupt. The loop stays whole.
                self.loop.call_exception_handler(
                    {"message": "an exception reached the async lane's loop", "exception": exception}
                )

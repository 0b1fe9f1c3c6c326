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
from functools import partial
from typing import Any, Protocol

from codeact_kernel.inkernel.guard import Guard, Later, MainGuard
from codeact_kernel.inkernel.guarded import GuardedCoroutine
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

    def interrupt(self, request: Request, *, insisting: bool) -> None:
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

    def interrupt(self, request: Request, *, insisting: bool) -> None:
        """As in `Lane`."""
        self._guard.interrupt(request, insisting=insisting)

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

    def interrupt(self, request: Request, *, insisting: bool) -> None:
        """As in `Lane`."""
        if request.guard is not None:
            request.guard.interrupt(request, insisting=insisting)

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
        later: Calls the second stage of an interrupt.
    """

    name = "async"

    def __init__(self, run: RunAsync, context: MakeContext, later: Later) -> None:
        self._run = run
        self._context = context
        self._later = later
        self.home = Home(self._make_task)

    def start(self) -> None:
        """Start the thread."""
        self.home.thread.start()

    def move(self) -> None:
        """Leave the thread to a request that does not let it go: further requests get another one, and a loop."""
        self.home = Home(self._make_task)
        self.start()

    def submit(self, request: Request) -> None:
        """As in `Lane`."""
        home = request.home = self.home
        request.guard = home.guard
        context = self._context()
        context.run(current.set, request)
        home.loop.call_soon_threadsafe(self._begin, request, context=context)

    def interrupt(self, request: Request, *, insisting: bool) -> None:
        """As in `Lane`: cancel its tasks; what still sits in synchronous code a moment later is interrupted
        in the thread. One that is insisted on gets no further step in any of its coroutines.
        """  # noqa: D205
        assert request.home is not None
        if insisting:
            for coroutine in list(request.coroutines):
                coroutine.give_up()
            request.home.guard.interrupt(request, insisting=True)
        heard = threading.Event()
        request.home.loop.call_soon_threadsafe(self._cancel, request, heard)
        self._later(SECOND_STAGE, partial(self._second_stage, request, heard))

    def _begin(self, request: Request) -> None:
        request.task = asyncio.Task(self._run(request), loop=asyncio.get_running_loop())

    def _cancel(self, request: Request, heard: threading.Event) -> None:
        heard.set()
        for task in list(request.tasks):
            task.cancel()
        if request.awaiting and request.task is not None:
            request.task.cancel()

    def _second_stage(self, request: Request, heard: threading.Event) -> None:
        assert request.home is not None
        if request.ended is None and not request.home.guard.interrupt(request) and not heard.is_set():
            # Another one holds the loop, which may have a step of this one to make before it comes to cancel it.
            self._later(SECOND_STAGE, partial(self._second_stage, request, heard))

    def _make_task(
        self, guard: Guard, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any
    ) -> asyncio.Task[Any]:
        request = current.get()
        if request is None or not asyncio.iscoroutine(coro) or _is_plumbing(coro):
            return asyncio.Task(coro, loop=loop, **options)
        guarded = GuardedCoroutine(guard, request, coro)
        task = asyncio.Task(guarded, loop=loop, **options)
        request.coroutines.add(guarded)
        request.tasks.add(task)
        return task


class Home:
    """A thread with an event loop.

    Args:
        make_task: Makes the loop's tasks: (guard, loop, coroutine).
    """

    def __init__(self, make_task: Callable[..., asyncio.Task[Any]]) -> None:
        self.guard = Guard()
        self.loop = asyncio.new_event_loop()
        self.loop.set_task_factory(partial(make_task, self.guard))
        self.thread = threading.Thread(target=self._serve, name="async lane", daemon=True)

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


def _is_plumbing(coro: Any) -> bool:
    """Whether a task would be asyncio's own, to connect a child's pipes say: cancelled, it leaves who waits hanging."""
    frame = getattr(coro, "cr_frame", None)
    module = frame.f_globals.get("__name__", "") if frame is not None else ""
    return module.startswith("asyncio.") and coro.__name__.startswith("_")

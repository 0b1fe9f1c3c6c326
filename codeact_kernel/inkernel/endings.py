"""Ends requests that their owner wants ended, by means as hard as it takes.

Comes in: the owner's messages on the control channel, each about one request. Goes out: interrupts, in the threads
and tasks of that request only; the end of its processes; sockets shut down; at last the request's reply without its
end. The order and the pauses are the owner's: it sees whether the request has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.children import Children
from codeact_kernel.inkernel.executor import Executor
from codeact_kernel.inkernel.lanes import SECOND_STAGE, AsyncLane
from codeact_kernel.inkernel.request import Request
from codeact_kernel.inkernel.router import Router
from codeact_kernel.inkernel.sockets import shut_down, sockets_of
from codeact_kernel.inkernel.subshells import Subshells
from codeact_kernel.inkernel.threads import interrupt_threads

Content = dict[str, Any]
Reply = Callable[[str, Content, Any, Any], None]


PAUSES = (0.2, 0.3, 0.4, 0.5)
"""Seconds that the threads and tasks that a block has left get before each time that they are insisted on; after the
last one they get as many as before it, and then count as what nothing ends."""
POLL = 0.02
"""Seconds between looks at what has not ended yet."""


class Endings:
    """The means.

    Args:
        router: Knows the requests.
        subshells: Know those that it does not.
        executor: Answers those whose code does not end.
        children: Their processes.
        known: Gives a request, one that has ended included, as long as something of it goes on.
        async_lane: Its thread can be held by one of them.
        reply: Sends a reply on the control channel: (type, content, parent, identity).
        later: Calls a function after so many seconds, in another thread.
    """

    def __init__(
        self,
        router: Router,
        subshells: Subshells,
        executor: Executor,
        children: Children,
        known: Callable[[str], Request | None],
        async_lane: AsyncLane,
        reply: Reply,
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._router = router
        self._subshells = subshells
        self._executor = executor
        self._children = children
        self._known = known
        self._async_lane = async_lane
        self._reply = reply
        self._later = later
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def handlers(self) -> dict[str, Callable[[Any, Any, dict[str, Any]], Coroutine[Any, Any, None]]]:
        """What takes which control message."""
        return {
            "interrupt_request": partial(self._answer, "interrupt_reply", self.interrupt),
            wire.INSIST: partial(self._answer, wire.INSIST_REPLY, self.insist),
            wire.CUT_OFF: partial(self._answer, wire.CUT_OFF_REPLY, self.cut_off),
            wire.END_REST: partial(self._beside, wire.END_REST_REPLY, self.end_rest),
        }

    # -- the means, from the gentlest on ------------------------------------------------------------------

    def interrupt(self, wanted: Content) -> Content:
        """Interrupt the request that is named, or each live one where none is."""
        named = wanted.get("msg_id")
        live = [request.msg_id for request in (*self._router.live, *self._subshells.live)]
        for msg_id in live if named is None else [named]:
            self._note_what_it_keeps(self._router.find(msg_id))
            request = self._subshells.interrupt(msg_id) or self._router.interrupt(msg_id)
            if request is not None:
                self._interrupt_children(request)
                if request.lane == "async":
                    # Code there that was about to start a child and wait for it, without await, does so by now.
                    self._later(SECOND_STAGE, partial(self._interrupt_children, request, again=True))
        return {}

    def insist(self, wanted: Content) -> Content:
        """End the request's processes, its threads' waits for sockets, and its code at each line that it still runs."""
        request = self._router.interrupt(wanted["msg_id"], insisting=True)
        if request is None or request.lane is None:
            return {}
        self._go_on(self._children.end(request))
        _end_waits(request)
        return {}

    def cut_off(self, wanted: Content) -> Content:
        """Answer the request though its code does not end, and let nothing more of it through."""
        request = self._router.find(wanted["msg_id"])
        if request is None or request.lane is None:
            return {"status": "ended"}
        living = [f"thread {name}" for name in _threads_of(request)]
        living += [f"process {pid} ({command})" for pid, command in self._children.of(request)]
        self._router.cut_off(request)
        if request.home is self._async_lane.home and request.home.guard.is_open_for(request):
            self._async_lane.move()
        return {} if self._executor.cut_off(request, living) else {"status": "ended"}

    async def end_rest(self, wanted: Content) -> Content:
        """End what the request that is named has left running, but for what it keeps for later; or all processes."""
        msg_id = wanted.get("msg_id")
        if msg_id is None:
            return {"ended": await self._children.end(None)}
        request = self._children.find(msg_id) or self._known(msg_id)
        if request is None:
            return {"ended": []}
        ended, _ = await asyncio.gather(self._children.end(request, sparing=True), self._end_threads(request))
        living = [[pid, command] for pid, command in self._children.of(request)]
        return {"ended": ended, "processes": living, "threads": list(_threads_of(request))}

    async def _end_threads(self, request: Request) -> None:
        """End the threads and tasks of a request whose own code has ended. They have had the interrupt that it had."""
        for seconds in PAUSES:
            if await _rest_is_over(request, seconds):
                return
            interrupt_threads(request, insisting=True)
            _end_waits(request)
            if request.home is not None:
                self._async_lane.interrupt(request, insisting=True)
        await _rest_is_over(request, PAUSES[-1])

    def _note_what_it_keeps(self, request: Request | None) -> None:
        # Afterwards its code waits for none of them any more.
        if request is not None and request.keeps is None:
            request.keeps = self._children.kept(request)

    def _interrupt_children(self, request: Request, *, again: bool = False) -> None:
        # After the request itself: a thread that waits for a child finds its own interrupt when the child ends.
        # The async lane has only cancelled at first, which code that waits without await would not notice.
        guard = request.guard
        if guard is not None and (not again or guard.is_open_for(request)):
            first = partial(guard.interrupt, request) if request.lane == "async" else lambda: None
            self._children.interrupt(request, first)

    # -- messages -----------------------------------------------------------------------------------------

    async def _answer(
        self, kind: str, means: Callable[[Content], Content], stream: Any, ident: Any, parent: dict[str, Any]
    ) -> None:
        self._reply(kind, {"status": "ok", **means(parent["content"])}, parent, ident)

    async def _beside(
        self,
        kind: str,
        means: Callable[[Content], Coroutine[Any, Any, Content]],
        stream: Any,
        ident: Any,
        parent: dict[str, Any],
    ) -> None:
        """Answer when it is done, and take other control messages meanwhile."""

        async def work() -> None:
            self._reply(kind, {"status": "ok", **await means(parent["content"])}, parent, ident)

        self._go_on(work())

    def _go_on(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _end_waits(request: Request) -> None:
    sockets = sockets_of(_threads_of(request).values())
    # Noted first: the request's reply may be on its way before the last one is shut down.
    request.shut_down |= bool(sockets)
    shut_down(sockets)


async def _rest_is_over(request: Request, seconds: float) -> bool:
    """Wait until no thread or task of a request goes on, for so many seconds at most; returns whether it is so."""
    for _ in range(round(seconds / POLL)):
        if not _rest_of(request):
            return True
        await asyncio.sleep(POLL)
    return not _rest_of(request)


def _rest_of(request: Request) -> list[object]:
    """The threads and tasks of a request that go on."""
    return [*_threads_of(request), *(task for task in list(request.tasks) if not task.done())]


def _threads_of(request: Request) -> dict[str, int]:
    """The threads in which a request's code runs now: the native id of each by its name."""
    guards = [guard for guard in (request.guard, *request.thread_guards) if guard is not None]
    running = {guard.thread_of(request) for guard in guards}
    running -= {thread.ident for thread in list(request.spared_threads)}
    return {thread.name: thread.native_id or 0 for thread in threading.enumerate() if thread.ident in running}

"""Requests that go ipykernel's own way: in a subshell, one after the other, or on the control channel.

Comes in: a request whose turn it is in its thread. Goes out: its end, interrupts that reach it, and word of when a
subshell is idle.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

from codeact_kernel.inkernel.executor import Executor
from codeact_kernel.inkernel.guard import Guard
from codeact_kernel.inkernel.lanes import SECOND_STAGE
from codeact_kernel.inkernel.request import Request, current
from codeact_kernel.inkernel.threads import interrupt_threads


class Subshells:
    """Runs such requests.

    Args:
        executor: The executor.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._running: dict[Request, Future[None]] = {}

    @property
    def live(self) -> list[Request]:
        """The requests that run."""
        return list(self._running)

    async def run(self, request: Request) -> None:
        """Run a request to its end, in this thread.

        Args:
            request: The request.
        """
        request.guard, request.task = Guard(), asyncio.current_task()
        ended = self._running[request] = Future()
        token = current.set(request)
        try:
            if request.is_async:
                await self._executor.run_async(request)
            else:
                self._executor.run(request)
        finally:
            current.reset(token)
            del self._running[request]
            ended.set_result(None)

    def interrupt(self, msg_id: str) -> Request | None:
        """Interrupt a request, if it runs here.

        Args:
            msg_id: The message id of the request.

        Returns:
            The request.
        """
        for request in self.live:
            if request.msg_id == msg_id and request.task is not None and request.guard is not None:
                request.interrupted = True
                interrupt_threads(request)
                if request.is_async:
                    request.task.get_loop().call_soon_threadsafe(_cancel, request)
                    threading.Timer(SECOND_STAGE, request.guard.interrupt, (request,)).start()
                else:
                    request.guard.interrupt(request)
                return request
        return None

    async def idle(self, subshell: str) -> None:
        """Wait until no request runs in a subshell.

        Args:
            subshell: Its id.
        """
        while ends := [
            asyncio.wrap_future(end)
            for request, end in list(self._running.items())
            if request.parent["header"].get("subshell_id") == subshell
        ]:
            await asyncio.wait(ends)


def _cancel(request: Request) -> None:
    if request.awaiting and request.task is not None:
        request.task.cancel()

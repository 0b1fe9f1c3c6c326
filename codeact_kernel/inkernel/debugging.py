"""The debugger of a person's client, in a kernel where agents' blocks run, too.

Comes in: `debug_request`s. Goes out: their replies, and debugpy's events. It is ipykernel's debugger, but: it
follows a person's code and never an agent's; a stop holds the thread it happens in, and no other; and the
control channel, by which interrupts and agents' calls go, waits neither for a start nor for a look at a variable.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from ipykernel import ipkernel
from ipykernel.debugger import Debugger, VariableExplorer

from codeact_kernel.inkernel.guard import Guard

T = TypeVar("T")


class CodeactDebugger(Debugger):  # type: ignore[misc]
    """ipykernel's debugger, beside agents' blocks."""

    debugpy_initialized: bool
    variable_explorer: VariableExplorer
    listed: ClassVar[list[str] | None] = None
    """The files of the kernel's own modules, where they were listed before it was forked."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.listed is not None:
            self.kernel_modules = self.listed
        self._one_by_one = asyncio.Lock()

    async def process_request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer a request, whatever happens: one without an answer would leave its client waiting.

        Args:
            message: The request, in the words of the debug adapter protocol.

        Returns:
            The answer.
        """
        command = message["command"]
        try:
            # debugpy's answers are told apart by their order only.
            async with self._one_by_one:
                if command == "initialize":
                    await self._prepare()
                reply: dict[str, Any] = await super().process_request(message)
        except Exception as problem:
            self.log.exception("a debug request could not be answered")
            reply = {"type": "response", "request_seq": message["seq"], "command": command}
            return reply | {"success": False, "message": f"{type(problem).__name__}: {problem}"}
        if command == "disconnect":
            Guard.follower = None
        return reply

    def _handle_event(self, event: dict[str, Any]) -> None:
        # An interrupt has told of a thread's going on before debugpy did.
        if event["event"] != "continued" or event["body"]["threadId"] in self.stopped_threads:
            super()._handle_event(event)

    async def attach(self, message: dict[str, Any]) -> Any:
        """Attach, with stops that hold one thread."""
        message["arguments"]["stopAllThreadsOnSuspend"] = False
        return await super().attach(message)

    async def inspectVariables(self, message: dict[str, Any]) -> Any:  # noqa: N802
        """List the namespace's variables."""
        return self._build_variables_response(message, await _apart(self._look))

    async def richInspectVariables(self, message: dict[str, Any]) -> Any:  # noqa: N802
        """Format a variable for display."""
        return await self._unless_stopped(super().richInspectVariables(message))

    async def variables(self, message: dict[str, Any]) -> Any:
        """List what is in a variable, or in a scope of a stopped frame."""
        return await self._unless_stopped(super().variables(message))

    async def _prepare(self) -> None:
        # ipykernel has the main shell do this, and waits for it: while that is busy, for as long as it takes.
        from codeact_kernel.inkernel import following

        if not self.debugpy_initialized:
            # What the kernel loaded at its start is known to be none of the person's code.
            self.kernel_modules.append(following.__file__)
            address = self.debugpy_client.get_host_port()
            await _apart(lambda: following.listen(*address))
            self.debugpy_initialized = True
        Guard.follower = following.Follower()

    async def _unless_stopped(self, answer: Coroutine[Any, Any, T]) -> T:
        # Of a thread that is stopped it is debugpy that answers, and whoever asks it must be here.
        return await answer if self.stopped_threads else await _apart(lambda: asyncio.run(answer))

    def _look(self) -> list[dict[str, Any]]:
        self.variable_explorer.untrack_all()
        self.variable_explorer = _Explorer()
        self.variable_explorer.track()
        variables: list[dict[str, Any]] = self.variable_explorer.get_children_variables()
        return variables


class _NoModules:
    """Stands for `sys` where ipykernel looks at all modules."""

    modules: ClassVar[dict[str, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)


@contextmanager
def modules_as_listed() -> Generator[None]:
    """Around the making of ipykernel's kernel: spare it the list of its own modules where there is one.

    A look at each module that is loaded would copy the page of each into a forked kernel, 2 MB in all; and what was
    preloaded for blocks is none of the kernel's own.
    """
    if CodeactDebugger.listed is None:
        yield
        return
    ipkernel.sys = _NoModules()
    try:
        yield
    finally:
        ipkernel.sys = sys


class _Explorer(VariableExplorer):  # type: ignore[misc]
    def track(self) -> None:
        super().track()
        # Blocks go on while somebody looks, and may bind names.
        self.frame.f_locals = dict(self.frame.f_locals)


async def _apart(function: Callable[[], T]) -> T:
    """Call a function in a thread that is never followed, whatever code of a person it reaches."""
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as problem:
            future.set_exception(problem)

    thread: Any = threading.Thread(target=call, name="debugger", daemon=True)
    thread.pydev_do_not_trace = thread.is_pydev_daemon_thread = True
    thread.start()
    return await asyncio.wrap_future(future)

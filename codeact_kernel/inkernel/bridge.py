"""Calls from code in the kernel to the host, and the host's answers.

Comes in: a call from any lane or thread; the host's `RETURN` messages on the control channel. Goes out: `CALL`
messages to the identity that opened the bridge; the answer, where the call was made.

Calls ride on the control channel, which is routed, so nothing is dropped under a flood of output, no port is
opened, and printed text can never be taken for a call. Answers are taken ahead of ordinary control messages.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.aio import Arrival
from codeact_kernel.inkernel.forked import is_copy
from codeact_kernel.inkernel.largeresult import LargeResult
from codeact_kernel.inkernel.request import Request, current


class ToolError(Exception):
    """A tool of the host failed; the text says why."""

    # Blocks know it by this name in their own module, and tracebacks show it so.
    __module__ = "__main__"

    def __reduce__(self) -> tuple[Any, ...]:
        # In another kernel it is that kernel's own class.
        return tool_error, self.args


def tool_error(*args: Any) -> ToolError:
    """Make one, where a pickled one arrives."""
    return ToolError(*args)


class _Call(NamedTuple):
    """A call that is waited for: in a thread, or in a loop."""

    content: dict[str, Any]
    waits: Arrival[dict[str, Any]] | asyncio.Future[dict[str, Any]]
    loop: asyncio.AbstractEventLoop | None
    request: Request | None


class Bridge:
    """The kernel's end of the bridge.

    What is called while the control thread is busy goes out as one message, and so do what comes back: a thousand
    gathered calls are a few messages.

    Args:
        soon: Calls a function in the control thread, from any thread.
        send: Sends frames on the control channel, in the control thread.
        session: Gives the kernel's session.
    """

    def __init__(
        self,
        soon: Callable[[Callable[[], None]], object],
        send: Callable[[list[bytes]], object],
        session: Callable[[], Any],
    ) -> None:
        self._soon = soon
        self._send = send
        self._session = session
        self._owner: list[bytes] | None = None
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, _Call] = {}
        self._calls: list[dict[str, Any]] = []
        self._abandoned: list[int] = []

    def open(self, ident: list[bytes]) -> None:
        """Send calls to this identity from now on. What another one was asked for it will not answer."""
        self.lose()
        self._owner = list(ident)

    def lose(self) -> None:
        """Take that the host is gone: each call that it has not answered fails."""
        self._owner = None
        with self._lock:
            self._calls.clear()
            self._abandoned.clear()
            lost = list(self._waiting)
        error = "the agent's host ended during this call: whether it happened is unknown"
        self._return([{"call": number, "status": "error", "error": error} for number in lost])

    def call(self, name: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Call a function of the host and wait, interruptibly.

        Args:
            name: The function.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Returns:
            What it returned.

        Raises:
            ToolError: If it failed, if no host is there, or if an argument cannot travel.
        """
        answer: Arrival[dict[str, Any]] = Arrival()
        number = next(self._ids)
        try:
            self._begin(number, name, args, kwargs or {}, answer, None)
            return self._value_of(answer.wait())
        finally:
            self._end(number)

    async def acall(self, name: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """As `call`, without blocking the loop."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        number = next(self._ids)
        try:
            self._begin(number, name, args, kwargs or {}, future, loop)
            return self._value_of(await future)
        finally:
            self._end(number)

    def _value_of(self, content: dict[str, Any]) -> Any:
        """What came back. Unpacked where it is waited for: making a frame of it takes its time."""
        if content.get("status") != "ok":
            raise ToolError(content.get("error") or "the tool failed and did not say why")
        if "large" in content:
            return LargeResult(content["large"], lambda number, start: self.call(wire.PAGE, (number, start)))
        try:
            return wire.unpack(content.get("value"))
        except ValueError as error:
            raise ToolError(f"the result cannot be read here: {error}") from None

    def take(self, msg: list[bytes]) -> bool:
        """Take a control message if it is an answer, or asks for the calls that have none.

        Args:
            msg: The message's frames.

        Returns:
            Whether it was one; anything else is left as it was.
        """
        kind = wire.kind_of(msg)
        if kind not in (wire.RETURN, wire.CALLS_AGAIN):
            return False
        if wire.idents_of(msg) != self._owner_frames():
            return True
        content = wire.content_of(self._session(), msg)
        if content is None:
            return True
        if kind == wire.CALLS_AGAIN:
            with self._lock:
                self._calls = [call.content for call in self._waiting.values()]
            self._flush()
        else:
            self._return(content.get("returns") or [])
        return True

    def _return(self, returns: list[dict[str, Any]]) -> None:
        """Hand answers to who waits; those of one loop wake it once."""
        of_loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], dict[str, Any]]]] = {}
        for content in returns:
            if content.get("status") == "note":
                self._note(content)
                continue
            with self._lock:
                call = self._waiting.pop(content["call"], None)
            if call is None:
                continue
            if isinstance(call.waits, Arrival):
                call.waits.set(content)
            elif call.loop is not None:
                of_loops.setdefault(call.loop, []).append((call.waits, content))
        for loop, settled in of_loops.items():
            with suppress(RuntimeError):  # the loop is closed, and nobody waits there
                loop.call_soon_threadsafe(_settle_all, settled)

    def _note(self, content: dict[str, Any]) -> None:
        """Print what a tool says while it works, as the block that called it."""
        with self._lock:
            call = self._waiting.get(content["call"])
        request = None if call is None else call.request
        if request is not None and not request.is_cut_off:
            request.outbox.write("stdout", str(content.get("text")).rstrip("\n") + "\n")

    def _owner_frames(self) -> list[bytes]:
        return self._owner or []

    def _begin(
        self,
        number: int,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        waits: Arrival[dict[str, Any]] | asyncio.Future[dict[str, Any]],
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        if is_copy():
            raise ToolError(
                f"{name} cannot be called from a copy of the kernel's process: call it from a thread"
            )
        if self._owner is None:
            raise ToolError(f"{name} is served by an agent's host, and none is connected to this kernel")
        try:
            packed: Any = [wire.pack(value, f"argument {i + 1} of {name}") for i, value in enumerate(args)]
            named = {
                wire.pack_name(key): wire.pack(value, f"argument {key!r} of {name}")
                for key, value in kwargs.items()
            }
        except TypeError as exception:
            raise ToolError(str(exception)) from None
        if wire.size_of([packed, named]) > wire.MOST_ARGUMENTS:
            raise ToolError(
                f"the arguments of {name} take more than {wire.MOST_ARGUMENTS // 2**20} MiB: write them to a file in "
                "the workspace, and pass its path"
            )
        request = current.get()
        if request is not None:
            _check_that_it_may_call(request)
        content = {
            "call": number,
            "name": name,
            "args": packed,
            "kwargs": named,
            "lane": request.lane if request else None,
            # What was left running on purpose calls as the agent: its block has ended.
            "of": request.msg_id if request and request.ended is None else None,
        }
        with self._lock:
            self._waiting[number] = _Call(content, waits, loop, request)
            self._calls.append(content)
            first = len(self._calls) == 1
        if first:
            self._soon(self._flush)

    def _end(self, number: int) -> None:
        with self._lock:
            if self._waiting.pop(number, None) is None:
                return
            self._abandoned.append(number)
            first = len(self._abandoned) == 1
        if first:
            self._soon(self._flush)

    def _flush(self) -> None:
        """Send what has come together. In the control thread."""
        with self._lock:
            calls, self._calls = self._calls, []
            abandoned, self._abandoned = self._abandoned, []
        if calls:
            self._post(wire.CALL, {"calls": calls})
        if abandoned:
            self._post(wire.ABANDON, {"calls": abandoned})

    def _post(self, msg_type: str, content: dict[str, Any]) -> None:
        self._send(wire.note_of(self._session(), msg_type, content, self._owner_frames()))


def _check_that_it_may_call(request: Request) -> None:
    if request.is_cut_off:
        raise ToolError(f"{request.label} was stopped: its calls are no longer answered")
    if request.ended is not None and not request.leaves_running:
        raise ToolError(
            f"{request.label} has ended: calls of what it left running are answered only if it handed that to "
            "self.background(…)"
        )


def _settle_all(settled: list[tuple[asyncio.Future[Any], dict[str, Any]]]) -> None:
    for future, content in settled:
        if not future.done():
            future.set_result(content)

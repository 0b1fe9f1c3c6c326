"""Calls from code in the kernel to the host, and the host's answers.

Comes in: a call from any lane or thread; the host's `RETURN` messages on the control channel. Goes out: `CALL`
messages to the identity that opened the bridge; the answer, where the call was made.

Calls ride on the control channel, which is routed, so nothing is dropped under a flood of output, no port is
opened, and printed text can never be taken for a call. Answers are taken ahead of ordinary control messages.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import threading
from collections.abc import Callable
from typing import Any

from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.aio import wait_for
from codeact_kernel.inkernel.request import current


class ToolError(Exception):
    """A tool of the host failed; the text says why."""

    # Blocks know it by this name in their own module, and tracebacks show it so.
    __module__ = "__main__"


class Bridge:
    """The kernel's end of the bridge.

    Args:
        send: Sends frames on the control channel, from any thread.
        session: Gives the kernel's session.
    """

    def __init__(self, send: Callable[[list[bytes]], None], session: Callable[[], Any]) -> None:
        self._send = send
        self._session = session
        self._owner: list[bytes] | None = None
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, concurrent.futures.Future[Any]] = {}

    def open(self, ident: list[bytes]) -> None:
        """Send calls to this identity from now on."""
        self._owner = list(ident)

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
        number, future = self._begin(name, args, kwargs or {})
        try:
            return wait_for(future)
        finally:
            self._end(number)

    async def acall(self, name: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """As `call`, without blocking the loop."""
        number, future = self._begin(name, args, kwargs or {})
        try:
            return await asyncio.wrap_future(future)
        finally:
            self._end(number)

    def take(self, msg: Any) -> bool:
        """Take a control message if it is an answer.

        Args:
            msg: The message's frames.

        Returns:
            Whether it was one; anything else is left as it was.
        """
        if not any(wire.RETURN.encode() in bytes(frame.buffer) for frame in msg[1:6]):
            return False
        session = self._session()
        idents, frames = session.feed_identities(msg, copy=False)
        if list(idents) != self._owner_frames():
            return True
        try:
            content = session.deserialize(frames, content=True, copy=False)["content"]
        except Exception:
            return True
        with self._lock:
            future = self._waiting.pop(content["call"], None)
        if future is not None:
            _settle(future, content)
        return True

    def _owner_frames(self) -> list[bytes]:
        return self._owner or []

    def _begin(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[int, concurrent.futures.Future[Any]]:
        if self._owner is None:
            raise ToolError(f"{name} is served by an agent's host, and none is connected to this kernel")
        try:
            packed = [wire.pack(value, f"argument {i + 1} of {name}") for i, value in enumerate(args)]
            named = {key: wire.pack(value, f"argument {key!r} of {name}") for key, value in kwargs.items()}
        except TypeError as exception:
            raise ToolError(str(exception)) from None
        request = current.get()
        number = next(self._ids)
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._lock:
            self._waiting[number] = future
        content = {"call": number, "name": name, "args": packed, "kwargs": named}
        self._post(wire.CALL, content, request.parent if request else None)
        return number, future

    def _end(self, number: int) -> None:
        with self._lock:
            waiting = self._waiting.pop(number, None)
        if waiting is not None:
            self._post(wire.ABANDON, {"call": number}, None)

    def _post(self, msg_type: str, content: dict[str, Any], parent: dict[str, Any] | None) -> None:
        session = self._session()
        message = session.msg(msg_type, content, parent=parent)
        self._send([*self._owner_frames(), *session.serialize(message)])


def _settle(future: concurrent.futures.Future[Any], content: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if content.get("status") == "ok":
        future.set_result(wire.unpack(content.get("value")))
    else:
        future.set_exception(ToolError(content.get("error") or "the tool failed and did not say why"))

"""The control channel, in the kernel: what comes is taken at once, what goes is sent at once.

Comes in: the messages of hosts and clients; frames to send, from any thread. Goes out: the messages, in order, to who
takes them ahead, or else to ipykernel; the frames.

It stands in the place of ipykernel's stream, a `ZMQStream`, which takes one message and sends one a round of its loop,
and looks at the socket several times around each: a call over the bridge takes some 70 µs more with it. `wire.sockets`
says how the socket is watched.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import zmq

from codeact_kernel.inkernel import wire

log = logging.getLogger(__name__)

TURN = 0.005
"""Seconds for which messages are taken before what else waits in the thread gets its turn."""


class ControlStream:
    """The control channel's socket, with what ipykernel asks of its stream.

    Args:
        stream: ipykernel's, which is not used any more.
        ahead: Called with each message; gives whether it has taken it. ipykernel gets the others.
    """

    def __init__(self, stream: Any, ahead: Callable[[list[bytes]], bool]) -> None:
        self.io_loop = stream.io_loop
        self._loop: asyncio.AbstractEventLoop = stream.io_loop.asyncio_loop
        self._socket: zmq.Socket[bytes] = stream.socket
        self._ahead = ahead
        self._callback: Callable[[list[zmq.Frame]], Any] = lambda frames: None
        self._thread: int | None = None
        self._next: asyncio.Handle | None = None
        """The next look for messages, where one is due though the descriptor says nothing."""
        self._dispatched: set[asyncio.Future[Any]] = set()

    def on_recv(self, callback: Callable[[list[zmq.Frame]], Any], copy: bool = False) -> None:
        """Take messages from now on.

        Args:
            callback: Called with those that are not taken ahead. What it returns is awaited, beside what else comes.
            copy: ipykernel's; it wants frames.
        """
        self._callback = callback
        self._loop.call_soon_threadsafe(self._start)

    def send_multipart(self, frames: list[Any], copy: bool = True, track: bool = False) -> None:
        """Send a message: at once in the control thread, soon from any other.

        Args:
            frames: The message.
            copy: Whether the frames are copied.
            track: ipykernel's; nothing is tracked.
        """
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self._send, frames, copy)
        else:
            self._send(frames, copy)

    def flush(self, flag: int = 0) -> None:
        """Nothing waits here to be sent."""

    def _start(self) -> None:
        self._thread = threading.get_ident()
        self.io_loop.remove_handler(self._socket)
        self._loop.add_reader(self._socket.fileno(), self._on_readable)
        self._read()

    def _send(self, frames: list[Any], copy: bool) -> None:
        wire.send(self._socket, frames)
        if self._next is None and wire.has_come(self._socket):
            self._next = self._loop.call_soon(self._read)

    def _on_readable(self) -> None:
        if self._next is None:
            self._read()

    def _read(self) -> None:
        """Take what has come: all of it, or as much as there is time for."""
        self._next = None
        end = time.monotonic() + TURN
        while (frames := wire.receive(self._socket)) is not None:
            try:
                if not self._ahead(frames):
                    self._dispatch([zmq.Frame(frame) for frame in frames])
            except Exception:
                log.exception("a control message could not be taken")
            if time.monotonic() > end:
                self._next = self._loop.call_soon(self._read)
                return

    def _dispatch(self, frames: list[zmq.Frame]) -> None:
        dispatched = self._callback(frames)
        if inspect.isawaitable(dispatched):
            task = asyncio.ensure_future(dispatched)
            self._dispatched.add(task)
            task.add_done_callback(self._over)

    def _over(self, task: asyncio.Future[Any]) -> None:
        self._dispatched.discard(task)
        # Told now, or the loop would tell of it when the task is freed: in the output of whatever block runs then.
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a control message could not be taken", exc_info=error)

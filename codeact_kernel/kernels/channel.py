"""One of Jupyter's channels: a socket that can be made anew.

Comes in: frames to send, and an address. Goes out: the frames that come, to whoever takes them. A socket that fails
under its reader or its writer is its owner's affair, who decides whether it is made anew.

A plain ZeroMQ socket, whose descriptor the event loop watches (`wire.sockets` says how): with zmq.asyncio a call over
the bridge takes some 50 µs more.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import zmq

from codeact_kernel.errors import KernelError
from codeact_kernel.inkernel import wire

RETRY = 5
"""Milliseconds between two tries to reach a kernel that has not opened its sockets yet; libzmq's 100 would be half of
the time that a forked kernel takes to start."""
TURN = 0.005
"""Seconds for which messages are taken before other tasks get their turn."""
KINDS = {"shell": zmq.DEALER, "control": zmq.DEALER, "iopub": zmq.SUB}


class _Socket(zmq.Socket[bytes]):
    """A socket that tells who reads it when it is closed; its descriptor would not."""

    told: Callable[[_Socket], None] | None = None

    def close(self, linger: int | None = None) -> None:
        """Close it; who reads it can still ask for its descriptor when it is told."""
        told, self.told = self.told, None
        if told is not None and not self.closed:
            told(self)
        super().close(linger)


class Channel:
    """A channel. Made in the event loop in which it is read.

    Args:
        context: Makes sockets.
        connection: What the kernel's connection file holds.
        name: "shell", "control" or "iopub".
        identity: Who we are. A socket that is made anew has the same one, so that the kernel's answers to what the
            old one sent come to it.
        take: Called with the channel and each message that comes. It must not raise.
        failed: Called with the channel and what is wrong where its socket has failed. It calls `reopen`, or raises
            a `KernelError`.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        connection: dict[str, Any],
        name: str,
        identity: bytes,
        take: Callable[[Channel, list[bytes]], None],
        failed: Callable[[Channel, object], None],
    ) -> None:
        separator = "-" if connection["transport"] == "ipc" else ":"
        port = connection[f"{name}_port"]
        self.name = name
        self._address = f"{connection['transport']}://{connection['ip']}{separator}{port}"
        self._context = context
        self._identity = identity
        self._take = take
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        """Held by who uses the socket: ZeroMQ's may be used by one thread after the other, not by two at once."""
        self._next: asyncio.Handle | None = None
        """The next look for messages, where one is due though the descriptor says nothing."""
        self._open()

    def send(self, frames: list[bytes]) -> None:
        """Send a message.

        Args:
            frames: The message.

        Raises:
            KernelError: What `failed` raises.
        """
        socket = self._socket
        try:
            has_come = self._send(socket, frames)
        except zmq.ZMQError as error:
            self._fail(socket, error)
            self.send(frames)
            return
        if has_come and self._next is None:
            self._next = self._loop.call_soon(self._read)

    def send_from_thread(self, frames: list[bytes]) -> bool:
        """Send a message from another thread than the loop's.

        Args:
            frames: The message.

        Returns:
            Whether it was sent; if not, the loop's next `send` finds out why.
        """
        try:
            has_come = self._send(self._socket, frames)
        except zmq.ZMQError:
            return False
        if has_come:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._on_readable)
        return True

    def _send(self, socket: _Socket, frames: list[bytes]) -> bool:
        """Send; returns whether something has come meanwhile, of which the descriptor may not tell."""
        with self._lock:
            wire.send(socket, frames)
            return wire.has_come(socket)

    def reopen(self) -> None:
        """Make the socket anew. What was on its way may be lost."""
        self.close()
        self._open()

    def close(self) -> None:
        """Close it; may be called twice."""
        if self._socket.told is not None:
            self._socket.told = None
            self._forget(self._socket)
        with self._lock:
            self._socket.close(linger=0)

    def _read(self) -> None:
        """Take what has come: all of it, or as much as there is time for."""
        self._next = None
        socket, end = self._socket, time.monotonic() + TURN
        # What takes a message may close this socket, or make it anew.
        while not socket.closed:
            try:
                with self._lock:
                    frames = wire.receive(socket)
            except zmq.ZMQError as error:
                self._fail_reading(socket, error)
                return
            if frames is None:
                return
            self._take(self, frames)
            if time.monotonic() > end and not socket.closed:
                self._next = self._loop.call_soon(self._read)
                return

    def _on_readable(self) -> None:
        if self._next is None:
            self._read()

    def _on_closing(self, socket: _Socket) -> None:
        self._forget(socket)
        if not self._loop.is_closed():
            self._loop.call_soon(self._fail_reading, socket, "it was closed")

    def _fail_reading(self, socket: _Socket, error: object) -> None:
        try:
            self._fail(socket, error)
        except KernelError:
            # Everybody who waits has been told.
            self.close()

    def _fail(self, socket: _Socket, error: object) -> None:
        # Reader and writer meet the same failure; who comes second finds a new socket.
        if socket is self._socket:
            self._failed(self, error)

    def _forget(self, socket: _Socket) -> None:
        with suppress(zmq.ZMQError):
            self._loop.remove_reader(socket.fileno())
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _open(self) -> None:
        kind = KINDS[self.name]
        socket = cast("_Socket", self._context.socket(kind, socket_class=_Socket))
        socket.linger = 0
        socket.reconnect_ivl = RETRY
        socket.rcvhwm = 0
        socket.sndhwm = 0
        if kind == zmq.SUB:
            socket.subscribe(b"")
        else:
            socket.identity = self._identity
        socket.connect(self._address)
        socket.told = self._on_closing
        self._socket = socket
        self._loop.add_reader(socket.fileno(), self._on_readable)

"""Requests that ask about the namespace and run nothing: completion, inspection, history, kernel info.

Comes in: such requests from the shell channel. Goes out: their replies, by ipykernel's own handlers, from a
thread that no block ever runs in. So a person who attaches gets answers while an agent's block holds the main
thread.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from typing import Any


class _ShellChannel:
    """What ipykernel's handlers take for the shell socket: sends from any thread."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def send_multipart(self, frames: list[bytes], *args: Any, **kwargs: Any) -> None:
        """Send a reply."""
        self._kernel.in_shell_channel(list(frames))


class Aside:
    """The thread that answers.

    Args:
        kernel: The kernel, with ipykernel's handlers.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._channel = _ShellChannel(kernel)
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="aside", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, msg: Any) -> None:
        """Answer a request, after those before it.

        Args:
            msg: The message's frames.
        """
        self._waiting.put(msg)

    def _serve(self) -> None:
        loop = asyncio.new_event_loop()
        while True:
            msg = self._waiting.get()
            try:
                loop.run_until_complete(self._answer(msg))
            except Exception:
                self._kernel.log.exception("a request could not be answered")

    async def _answer(self, msg: Any) -> None:
        kernel = self._kernel
        idents, frames = kernel.session.feed_identities(msg, copy=False)
        parent = kernel.session.deserialize(frames, content=True, copy=False)
        kernel._publish_status("busy", "shell", parent=parent)
        try:
            answered = kernel.shell_handlers[parent["msg_type"]](self._channel, idents, parent)
            if inspect.isawaitable(answered):
                await answered
        finally:
            kernel._publish_status("idle", "shell", parent=parent)

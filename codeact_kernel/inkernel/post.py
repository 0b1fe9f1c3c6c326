"""The way of outputs from an outbox to the iopub socket.

Comes in: numbered outputs, from any thread. Goes out: Jupyter's messages, in the order in which they came.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.spool import Output

BY_REFERENCE = 2**16
"""Bytes from which a frame is handed over without a copy, as Jupyter's own sessions do."""
SHORT_PATIENCE = 0.05
"""Seconds that the async lane's thread waits for a reader, because all blocks with await share it, and a block
that is being ended, because somebody waits for that."""


class IopubPost:
    """Publishes through ipykernel's iopub thread (the outboxes' `Post`).

    Args:
        session: Gives the kernel's session.
        thread: ipykernel's iopub thread.
        later: Calls a function after so many seconds, in that thread.
        patience: Seconds that the calling thread may wait for a reader.
    """

    def __init__(
        self,
        session: Callable[[], Any],
        thread: Any,
        later: Callable[[float, Callable[[], None]], None],
        patience: Callable[[], float],
    ) -> None:
        self._session = session
        self._thread = thread
        self._later = later
        self._patience = patience

    def make(self, kind: str, content: dict[str, Any], parent: dict[str, Any]) -> dict[str, Any]:
        """As in `Post`."""
        message: dict[str, Any] = self._session().msg(kind, content, parent=parent)
        return message

    def publish(self, output: Output, number: int, parent: dict[str, Any]) -> None:
        """As in `Post`."""
        message = self.make(output.kind, {}, parent)
        message["content"] = output.content
        message["metadata"] = {wire.KEY: {"n": number}}
        self.send((output.topic, message))

    def send(self, *messages: tuple[bytes, dict[str, Any]]) -> None:
        """Send messages on iopub, after all that came before them.

        Args:
            *messages: What to publish each under, and the message.
        """
        session = self._session()
        packed = [wire.frames_of(session, message, [topic]) for topic, message in messages]
        if threading.current_thread() is self._thread.thread:
            # What it was told before has been done; to tell itself would fill its own pipe.
            self._put(packed)
        else:
            self._thread.schedule(partial(self._put, packed))

    def _put(self, packed: list[list[bytes]]) -> None:
        for frames in packed:
            self._thread._really_send(frames, copy=max(map(len, frames)) < BY_REFERENCE)

    def soon(self, function: Callable[[], None]) -> None:
        """As in `Post`."""
        self._thread.schedule(function)

    def later(self, delay: float, function: Callable[[], None]) -> None:
        """As in `Post`."""
        self._later(delay, lambda: self._thread.schedule(function))

    def patience(self) -> float:
        """As in `Post`."""
        return self._patience()

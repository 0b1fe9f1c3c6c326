"""A request's outputs, numbered in the order in which they were made.

Comes in: text, displays, results and errors of one request. Goes out: iopub messages, each with its number.
Text is collected and sent in chunks: at once when there is much of it, else a moment later, and always
before the next output of another kind and before the reply. Nothing here waits for the iopub thread: the
numbers tell a reader whether it has everything, so no flush has to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from codeact_kernel.inkernel import wire

CHUNK = 64 * 1024
"""Characters after which text is sent without waiting for more."""
DELAY = 0.05
"""Seconds for which text may wait for more, as long as the block runs."""

Send = Callable[[dict[str, Any], bytes], None]
Later = Callable[[float, Callable[[], None]], None]


class Outbox:
    """Publishes what one request puts out.

    Args:
        make: Builds a message: (type, content) to a message with this request as its parent.
        send: Sends a message on iopub under a topic; may be called from any thread.
        later: Calls a function after so many seconds, in another thread.
    """

    def __init__(
        self,
        make: Callable[[str, dict[str, Any]], dict[str, Any]],
        send: Send,
        later: Later,
    ) -> None:
        self._make = make
        self._send = send
        self._later = later
        self._lock = threading.RLock()
        self._text: list[str] = []
        self._size = 0
        self._name = "stdout"
        self._timer = False
        self.count = 0
        """How many outputs have been sent."""

    def write(self, name: str, text: str) -> None:
        """Add text to stdout or stderr.

        Args:
            name: "stdout" or "stderr".
            text: What was written.
        """
        if not text:
            return
        with self._lock:
            if name != self._name:
                self.flush()
                self._name = name
            self._text.append(text)
            self._size += len(text)
            if self._size >= CHUNK:
                self.flush()
            elif not self._timer:
                self._timer = True
                self._later(DELAY, self._on_timer)

    def flush(self) -> None:
        """Send the text collected so far."""
        with self._lock:
            if self._text:
                text = "".join(self._text)
                self._text.clear()
                self._size = 0
                for at in range(0, len(text), 16 * CHUNK):
                    content = {"name": self._name, "text": text[at : at + 16 * CHUNK]}
                    self._number(self._make("stream", content), f"stream.{self._name}".encode())

    def publish(self, message: dict[str, Any], topic: bytes) -> None:
        """Send an output of another kind, after the text written before it.

        Args:
            message: The message, made for this request.
            topic: What to publish it under.
        """
        with self._lock:
            self.flush()
            self._number(message, topic)

    def make(self, msg_type: str, content: dict[str, Any]) -> dict[str, Any]:
        """Build a message with this request as its parent."""
        return self._make(msg_type, content)

    def _number(self, message: dict[str, Any], topic: bytes) -> None:
        message["metadata"] = {**message.get("metadata", {}), wire.KEY: {"n": self.count}}
        self.count += 1
        self._send(message, topic)

    def _on_timer(self) -> None:
        with self._lock:
            self._timer = False
            self.flush()

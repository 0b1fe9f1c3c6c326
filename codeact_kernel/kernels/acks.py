"""Confirmations to the kernel of what has been taken in, many in one message.

Comes in: how far each request is. Goes out: `ACK` messages: a moment after the first news, at once when much has
come, so that a kernel that waits for them does not wait long, and a quiet one is not talked to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

DELAY = 0.05
"""Seconds for which a confirmation may wait for more."""
MUCH = 2**21
"""Bytes after which it does not: a quarter of what the kernel lets be on its way for one request."""


class Acks:
    """Collects confirmations.

    Args:
        send: Sends them: [phase, next output] by msg_id.
    """

    def __init__(self, send: Callable[[dict[str, tuple[int, int]]], None]) -> None:
        self._send = send
        self._have: dict[str, tuple[int, int]] = {}
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def note(self, msg_id: str, phase: int, number: int) -> None:
        """Note how far a request is.

        Args:
            msg_id: The request's id.
            phase: The phase that is known here.
            number: The first output that is not here.
        """
        self._have[msg_id] = (phase, number)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self.flush)

    def weigh(self, size: int) -> None:
        """Note how much has come.

        Args:
            size: Bytes of a message.
        """
        self._bytes += size
        if self._bytes >= MUCH:
            self.flush()

    def flush(self) -> None:
        """Send what is noted."""
        have, self._have, self._bytes = self._have, {}, 0
        self.close()
        if have:
            self._send(have)

    def close(self) -> None:
        """Send nothing more of what is noted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

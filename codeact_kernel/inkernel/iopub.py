"""The iopub thread: ipykernel's, and what is published before anybody listens waits for the first who does.

Comes in: frames to publish. Goes out: the same frames. A client's subscription is on its way while its first request
already is, and ZeroMQ drops what has no subscriber: a console would wait for ever for the end of its first cell.
"""

from __future__ import annotations

import threading
from typing import Any

from ipykernel.iostream import IOPubThread

PATIENCE = 1.0
"""Seconds that the first frames wait for somebody; ours: a subscription takes some ten milliseconds, and on a busy
machine some hundred. Who reads no iopub at all notices nothing."""


class PatientIOPubThread(IOPubThread):  # type: ignore[misc]
    """Publishes, from the first subscription on, or from `PATIENCE` seconds after the first frames."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] | None = []
        """What waits; None once nothing has to."""

    def _handle_subscription(self, frames: Any) -> None:
        super()._handle_subscription(frames)
        self._release()

    def _really_send(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        if self._waiting is None or threading.current_thread() is not self.thread:
            super()._really_send(msg, *args, **kwargs)
            return
        if not self._waiting:
            self.io_loop.call_later(PATIENCE, self._release)
        self._waiting.append((msg, args, kwargs))

    def _release(self) -> None:
        waiting, self._waiting = self._waiting or (), None
        for msg, args, kwargs in waiting:
            self._really_send(msg, *args, **kwargs)

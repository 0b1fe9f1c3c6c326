"""The iopub thread: ipykernel's, and what is published before anybody listens waits for the first who does.

Comes in: frames to publish. Goes out: the same frames. A client's subscription is on its way while its first request
already is, and ZeroMQ drops what has no subscriber: a console would wait for ever for the end of its first cell.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import zmq
from ipykernel.iostream import IOPubThread
from zmq.eventloop.zmqstream import ZMQStream

LINGER = 3000
"""Milliseconds in which a forked copy's last message has to leave; ipykernel's own."""
PATIENCE = 1.0
"""Seconds that the first frames wait for somebody; ours: a subscription takes some ten milliseconds, and on a busy
machine some hundred. Who reads no iopub at all notices nothing."""


class PatientIOPubThread(IOPubThread):  # type: ignore[misc]
    """Publishes, from the first subscription on, or from `PATIENCE` seconds after the first frames.

    Forked copies of the process send through a socket beside the others, where those lie in a private folder: ipykernel
    has a TCP port for that, at which everybody on the machine can knock, and which a sandbox without a network refuses.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._pipe_end: str | None = None
        """Where forked copies send; None where that is a TCP port of ipykernel's."""
        super().__init__(*args, **kwargs)
        self._waiting: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] | None = []
        """What waits; None once nothing has to."""

    def _setup_pipe_in(self) -> None:
        endpoint = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        if not endpoint.startswith("ipc://"):
            super()._setup_pipe_in()
            return
        self._pipe_uuid = os.urandom(16)
        self._pipe_end = f"{endpoint}f"
        pipe_in = self.socket.context.socket(zmq.PULL)
        pipe_in.linger = 0
        pipe_in.bind(self._pipe_end)
        self._pipe_in = ZMQStream(pipe_in, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def _setup_pipe_out(self) -> Any:
        if self._pipe_end is None:
            return super()._setup_pipe_out()
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()  # that of before the fork is of no use
        pipe_out = context.socket(zmq.PUSH)
        pipe_out.linger = LINGER
        pipe_out.connect(self._pipe_end)
        return context, pipe_out

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

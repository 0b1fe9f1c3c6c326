"""The magic's end of the line to its host.

Comes in: requests. Goes out: answers; and what the host says by itself. The host is a process of its own, one for each
kernel: it has the keys and the agents, and ends with the kernel.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from contextvars import Context
from typing import IO, Any

from codeact_kernel.inkernel import wire

START = 30.0
"""Seconds that the host may take to start: its imports, on a cold disk."""
ANSWER = 30.0
"""Seconds that it may take to answer."""
_LINES = 2000
"""Characters of what a host that failed has said, its end."""


class AgentError(Exception):
    """What was asked for cannot be had; the text says why. It is shown without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class Link:
    """A host, and the line to it.

    Args:
        told: Gets what the host says by itself, in a thread of its own.
        command: Starts a host; the descriptor of its end of the line is added.
    """

    def __init__(
        self,
        told: Callable[[dict[str, Any]], None],
        command: tuple[str, ...] = (sys.executable, "-P", "-m", "codeact_kernel.lab"),
    ) -> None:
        self._told = told
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._ready: Future[dict[str, Any]] = Future()
        self._gone = ""
        """Why it is gone; empty while it is not."""
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the host lives
        self._socket, theirs = socket.socketpair()
        # In a context of its own: else, in our kernel, stopping the cell would end what belongs to all cells.
        self._process = Context().run(self._start, command, theirs)
        Context().run(self._listen)
        try:
            self.folder = str(self._answer_of(self._ready, START)["folder"])
            """Where values can be put for it."""
        except BaseException:  # also a stop while it starts: nobody would know of it any more
            self.close()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked something."""
        return self._process.poll() is None

    def ask(self, do: str, *, within: float = ANSWER, **about: Any) -> dict[str, Any]:
        """Ask the host.

        Args:
            do: What it shall do.
            within: Seconds that it may take to answer.
            **about: What belongs to that.

        Returns:
            Its answer.

        Raises:
            AgentError: If it says no, is gone, or does not answer.
        """
        number, future = next(self._numbers), Future[dict[str, Any]]()
        with self._lock:
            if self._gone:
                raise AgentError(self._gone)
            self._waiting[number] = future
            with suppress(OSError):  # it is ending: the thread that reads will know why
                self._socket.sendall(wire.to_frame({"do": do, "number": number, **about}))
        answer = self._answer_of(future, within)
        if "error" in answer:
            raise AgentError(str(answer["error"]))
        return answer

    def close(self) -> None:
        """End the host and what it has; waits a moment for that. May be called twice."""
        with self._lock, suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        if self._process.poll() is None:
            self._process.kill()
        self._thread.join(1)

    def _start(self, command: tuple[str, ...], theirs: socket.socket) -> subprocess.Popen[bytes]:
        with theirs:
            return subprocess.Popen(
                [*command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )

    def _listen(self) -> None:
        self._thread = threading.Thread(target=self._read, name="the agent's host", daemon=True)
        self._thread.start()

    def _answer_of(self, future: Future[dict[str, Any]], seconds: float) -> dict[str, Any]:
        try:
            return future.result(seconds)
        except Late:
            raise AgentError(f"the agent's host did not answer within {seconds:.0f} s") from None

    def _read(self) -> None:
        with suppress(OSError, ValueError):
            while (message := wire.read_frame(self._socket.recv)) is not None:
                self._take(message)
        with suppress(OSError):  # what cannot be read ends it, too
            self._socket.shutdown(socket.SHUT_RDWR)
        self._process.wait()
        with self._lock:
            self._gone = self._why_gone()
            self._log.close()
            self._socket.close()
        for future in (self._ready, *self._waiting.values()):
            if not future.done():
                future.set_exception(AgentError(self._gone))
        self._waiting.clear()
        self._told({"tell": "gone", "message": self._gone})

    def _take(self, message: dict[str, Any]) -> None:
        if "re" in message:
            future = self._waiting.pop(message["re"], None)
            if future is not None:
                future.set_result(message)
        elif message.get("tell") == "ready":
            self._ready.set_result(message)
        else:
            self._told(message)

    def _why_gone(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        said = os.pread(self._log.fileno(), _LINES, max(0, size - _LINES)).decode("utf-8", "replace").strip()
        last = said.splitlines()[-1] if said else "it said nothing"
        return f"the agent's host has ended: {last}"

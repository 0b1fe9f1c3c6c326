"""A process that a warm parent has forked, as jupyter_client sees one.

Comes in: the descriptor that stands for it. Goes out: whether it lives, how it ended, and signals to it.
"""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

TOLD = 0.5
"""Seconds after its end in which the exit code comes; it comes at once, if anybody can tell it."""
UNKNOWN = 256
"""Stands for an exit code that nobody can tell any more, and is none."""


class Refused(Exception):
    """No kernel can be forked; the text says why."""


class ForkedProcess:
    """A process that a warm parent has forked, with the methods of `Popen` that jupyter_client uses.

    Args:
        descriptor: Stands for it (a pidfd): it can neither be mistaken for a later process, nor does it matter in
            which namespace of process ids it was made.

    Raises:
        Refused: If it has ended already.
    """

    stdin = stdout = stderr = None

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ended: float | None = None
        self.returncode: int | None = None
        self.pid = _pid_of(descriptor)
        if self.pid <= 0:
            self.close()
            raise Refused("the forked process ended at once")

    def poll(self) -> int | None:
        """How it ended, or None while it lives."""
        if self.returncode is None and self._has_ended():
            now = time.monotonic()
            self._ended = self._ended or now
            if now - self._ended > TOLD:
                self.take_end(UNKNOWN)
        return self.returncode

    def wait(self) -> int | None:
        """How it ended. Called when it has."""
        return self.poll()

    def send_signal(self, signum: int) -> None:
        """Send a signal to it alone."""
        if self.returncode is None:
            signal.pidfd_send_signal(self._descriptor, signum)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def take_end(self, code: int) -> None:
        """Take note that it has ended.

        Args:
            code: As in `Popen.returncode`.
        """
        if self.returncode is None:
            self.returncode = code
            self.close()

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)

    def _has_ended(self) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(0))


def _pid_of(descriptor: int) -> int:
    for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return 0

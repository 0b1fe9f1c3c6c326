"""A sandbox that waits for a kernel: one that is forked from a warm parent enters it from outside.

Comes in: the command that sandboxes a program. Goes out: a descriptor that stands for a process inside, by which
another one takes its namespaces. All of it ends when the holder is closed, or with the host.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from codeact_kernel.threads import DaemonThreads

WAITS = ["/bin/cat"]
"""What lives inside until its stdin closes."""
READY = 5.0
"""Seconds that it may take; it takes some ten milliseconds."""
spawning = DaemonThreads()
"""Bubblewrap ends with the thread that started it (`--die-with-parent` is of threads, prctl(2)): one that lasts."""


class Holder:
    """What waits in a sandbox.

    Args:
        sandboxed: Gives the command that runs a program in it: (the program, the descriptor where it tells of itself).
        env: The environment of what waits.
    """

    def __init__(self, sandboxed: Callable[[list[str], int], list[str]], env: dict[str, str]) -> None:
        self._sandboxed = sandboxed
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> int:
        """Start it.

        Returns:
            A pidfd of a process inside. The caller closes it.

        Raises:
            OSError: If it does not come to wait.
        """
        return await spawning.run(self._start)

    def close(self) -> None:
        """End it, and everything inside."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _start(self) -> int:
        read, write = os.pipe()
        try:
            self._process = subprocess.Popen(
                self._sandboxed(WAITS, write),
                env=self._env,
                cwd="/",
                pass_fds=(write,),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        finally:
            os.close(write)
        with open(read, "rb", buffering=0) as told:
            first = _first_inside(told, time.monotonic() + READY)
        if first is None:
            said = self._said()
            self.close()
            raise OSError(f"no sandbox came to wait{said}")
        return os.pidfd_open(first)

    def _said(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        self._process.kill()
        text = self._process.stderr.read().decode("utf-8", "replace").strip()
        return f": {text.splitlines()[-1][:300]}" if text else ""


def _first_inside(told: IO[bytes], end: float) -> int | None:
    """The process that bubblewrap has started inside, by what it tells of itself (`--info-fd`), in several writes."""
    text, poll = b"", select.poll()  # select itself knows no descriptor past 1023
    poll.register(told, select.POLLIN)
    while b"}" not in text and time.monotonic() < end:
        ready = poll.poll(1000 * max(0.0, end - time.monotonic()))
        piece = told.read(4096) if ready else b""
        if not piece:
            return None
        text += piece
    first = int(json.loads(text)["child-pid"])
    # Its own program starts a moment later; only then all of its namespaces are there.
    while time.monotonic() < end:
        if below := children(first):
            return below[0]
        time.sleep(0.001)
    return None


def children(pid: int) -> list[int]:
    """The processes that one has started."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []

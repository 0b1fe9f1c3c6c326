"""A copy of the kernel's process, in which something is done that nobody else shall notice.

Comes in: what is to be done. Goes out: whether it came to its end.

Pickling runs code of the values' classes, holds the interpreter's lock for as long as it takes, and reads what blocks
change meanwhile. In a forked copy none of that reaches anybody: the copy has the namespace as it was at one instant,
descriptors that lead nowhere, and an end.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import re
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress

STUCK = 32.0
"""Seconds that the copy may stay with one name; it gives one up by itself after 30, unless C code
holds it."""
POLL = 0.01
"""Seconds between looks at the copy."""
MOST_DESCRIPTORS = 65_536
"""Descriptors that are looked at where they cannot be listed."""
_SET_PDEATHSIG = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
warnings.filterwarnings("ignore", category=DeprecationWarning, module=re.escape(__name__))
"""Python warns of each fork in a process that has threads; ours runs nothing that needs one of them."""

copies: set[int] = set()
"""The processes that are copies: no block has started them."""


class Note:
    """What the copy says while it lives: a few bytes that both processes see."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 512)
        self.number = -1

    @property
    def number(self) -> int:
        """The number of the name that is being pickled; below zero for none."""
        return int(struct.unpack_from("<q", self._shared)[0])

    @number.setter
    def number(self, number: int) -> None:
        struct.pack_into("<q", self._shared, 0, number)

    @property
    def text(self) -> str:
        """Why it has failed."""
        return bytes(self._shared[8:]).rstrip(b"\0").decode("utf-8", "replace")

    @text.setter
    def text(self, text: str) -> None:
        struct.pack_into("504s", self._shared, 8, text.encode("utf-8", "replace"))


def run_in_copy(work: Callable[[], None], note: Note, room: int, deadline: float) -> str | None:
    """Run something in a copy of this process, and wait for that.

    Args:
        work: What is run.
        note: Says how far it is.
        room: Bytes of memory that the copy may take besides what it shares.
        deadline: When it has to have ended, as `time.monotonic` says it.

    Returns:
        What became of it, where it has not come to its end: a clause.
    """
    import posix

    limit = _size_of_memory() + room
    # Not `os.fork`, which is for blocks: the copy belongs to none of them.
    pid = posix.fork()
    if pid == 0:
        try:
            _become_copy(limit)
            work()
            os._exit(0)
        except BaseException as error:
            note.text = f"{type(error).__name__}: {error}"
        finally:
            os._exit(1)
    copies.add(pid)
    try:
        return _wait(pid, note, deadline)
    finally:
        copies.discard(pid)


def _wait(pid: int, note: Note, deadline: float) -> str | None:
    """Wait until a copy has ended; returns as `run_in_copy`."""
    since, number = time.monotonic(), note.number
    while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
        now = time.monotonic()
        if number != note.number:
            since, number = now, note.number
        if now > deadline or (number >= 0 and now > since + STUCK):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            _end_group(pid)
            return "did not end"
        time.sleep(POLL)
    _end_group(pid)
    code = os.waitstatus_to_exitcode(ended[1])
    return None if code == 0 else f"ended the process with {code}"


def _end_group(group: int) -> None:
    """End what is left of a copy and of what its pickling has started, and wait for that."""
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-group, 0)


def _size_of_memory() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * mmap.PAGESIZE


def _become_copy(limit: int) -> None:
    """Be a process of which nobody hears and that nobody waits for.

    Args:
        limit: Bytes of memory that it may have.
    """
    import resource

    os.setsid()
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    sys.settrace(None)
    gc.disable()
    os.nice(5)
    _lead_nowhere()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _lead_nowhere() -> None:
    """Put nothing behind each descriptor: a value that writes to its file or socket writes into none.

    They are not closed: what is opened here would get the number of one that a value believes to be its own.
    """
    import resource

    try:
        numbers = list(map(int, os.listdir("/proc/self/fd")))  # noqa: PTH208
    except OSError:  # Landlock has let the process see its own entry, and a copy has another one
        numbers = list(range(min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], MOST_DESCRIPTORS)))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in numbers:
        with suppress(OSError):
            os.fstat(number)
            os.dup2(nothing, number)

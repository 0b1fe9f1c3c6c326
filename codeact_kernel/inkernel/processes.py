"""The processes below this one, read from /proc.

Comes in: a process id. Goes out: the whole family below it, whatever sessions and groups its members have made
for themselves. Where there is no /proc, there is no family to see, and callers know only what they started.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LINUX = sys.platform == "linux"
_PR_SET_CHILD_SUBREAPER = 36
"""From linux/prctl.h."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it was when it was looked at."""

    pid: int
    parent: int
    started: int
    """In clock ticks since the machine's start: tells it from a later process with the same id."""
    state: str
    """As in proc(5): "Z" has ended and was not waited for."""
    name: str

    @property
    def alive(self) -> bool:
        """Whether it can still do something."""
        return self.state not in "ZX"

    @property
    def is_there(self) -> bool:
        """Whether it can still do something now."""
        now = look(self.pid)
        return now is not None and now.started == self.started and now.alive

    @property
    def command(self) -> str:
        """Its command line in one line, or its name in brackets where it has none."""
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().replace(b"\0", b" ").split()
        except OSError:
            words = []
        return b" ".join(words).decode("utf-8", "replace") or f"[{self.name}]"

    def variable(self, name: str) -> str | None:
        """A variable of the environment that it was started with; None where that cannot be read."""
        try:
            environment = Path(f"/proc/{self.pid}/environ").read_bytes()
        except OSError:
            return None
        start = f"{name}=".encode()
        found = [item for item in environment.split(b"\0") if item.startswith(start)]
        return found[0][len(start) :].decode("utf-8", "replace") if found else None

    def send(self, signum: int) -> None:
        """Send it a signal, and not to a later process with the same id."""
        now = look(self.pid)
        if not LINUX or (now is not None and now.started == self.started):
            with suppress(OSError):
                os.kill(self.pid, signum)


def look(pid: int) -> Process | None:
    """Look at a process.

    Args:
        pid: Its id.

    Returns:
        The process, or None where there is none, or no /proc to see it in.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            before, _, after = file.read().rpartition(b")")
    except OSError:
        return None
    # The fields from the third on, as in proc(5); the name before them may hold anything.
    fields = after.split()
    name = before.partition(b"(")[2].decode("utf-8", "replace")
    return Process(pid, int(fields[1]), int(fields[19]), fields[0].decode(), name)


def family(root: int) -> list[Process]:
    """All processes below one, parents before their children.

    Args:
        root: Its id.
    """
    children: dict[int, list[Process]] = {}
    for entry in Path("/proc").iterdir() if LINUX else ():
        if entry.name.isdigit() and (process := look(int(entry.name))) is not None:
            children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    due = [root]
    while due:
        below = children.get(due.pop(), [])
        found += below
        due += [process.pid for process in below]
    return found


def become_subreaper() -> bool:
    """Make this process the parent of all below it whose own parents have ended.

    Returns:
        Whether the system can do that.
    """
    if not LINUX:
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def ended_child() -> int | None:
    """The id of a child that has ended and was not waited for, or None.

    Raises:
        ChildProcessError: If there are no children at all.
    """
    result = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return result.si_pid if result is not None else None


def exists(pid: int) -> bool:
    """Whether there is a process of that id, one that was not waited for included.

    Args:
        pid: The id.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

"""One process at a time works on a run.

Comes in: a run's folder. Goes out: a lock that is held as long as its process lives, however that ends, and what
another process can tell of who holds it.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from codeact_kernel.errors import ConfigError
from codeact_kernel.runfiles import Folder, open_plain, write_all

if sys.platform != "win32":
    import fcntl

FILE = "lock"
LOOKS = 10
"""How often somebody may be met who only looks, before that counts as being held."""


class RunLock:
    """Holds a run for this process.

    Args:
        folder: The run's folder, open.

    Raises:
        ConfigError: If another process holds it, or its file cannot be made.
    """

    def __init__(self, folder: Folder) -> None:
        self._fd = -1
        try:
            self._fd = folder.append(FILE)
            if not _taken(self._fd):
                raise ConfigError(
                    f"{folder.path} is being worked on by {_who(folder.path)}: wait for its end, or end it"
                )
            os.ftruncate(self._fd, 0)
            write_all(self._fd, f"{os.getpid()}\n".encode())
        except OSError as error:
            raise ConfigError(f"{folder.path} cannot be locked: {error.strerror or error}") from error

    def release(self) -> None:
        """Let go of it; may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.release()


def holder(folder: Path) -> int | None:
    """The process that works on a run.

    Args:
        folder: The run's folder.

    Returns:
        Its number; None where no process does, and 0 where its number is not known.
    """
    try:
        with open_plain(folder / FILE) as file:
            if _locked(file.fileno(), shared=True):
                return None
            return int(file.read(20) or b"0")
    except (OSError, ValueError):
        return None


def _who(folder: Path) -> str:
    number = holder(folder)
    return f"process {number}" if number else "another process"


def _taken(fd: int) -> bool:
    """Take a file's lock, unless another process holds it. Who only looks (`holder`) shares it for a moment."""
    for _ in range(LOOKS):
        if _locked(fd):
            return True
        if not _locked(fd, shared=True):
            return False
        fcntl.flock(fd, fcntl.LOCK_UN)
        time.sleep(0.01)
    return False


def _locked(fd: int, *, shared: bool = False) -> bool:
    """Lock a file; gives whether nobody else holds it. A file system without locks has nobody who does."""
    if sys.platform == "win32":
        return True
    with suppress(OSError):
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True

"""System calls that Python 3.11 has no function for.

Comes in: arguments as the system wants them. Goes out: what it answers; a call that it refuses is an `OSError`.
"""

from __future__ import annotations

import ctypes
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)

PR_CAPBSET_DROP = 24
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
PR_SET_DUMPABLE = 4
PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 38, 39

SECCOMP = {"aarch64": 277, "x86_64": 317}
SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC = 1, 1
# Where Linux has these calls, they have these numbers on every architecture that we have a filter for.
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446


class CannotConfine(Exception):
    """A part of what was asked for cannot be had here. Nothing weaker was taken in its place.

    Args:
        reason: What, and why, in one line.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def call(name: str, *arguments: Any) -> int:
    """Call a function of libc that answers -1 where it fails.

    Args:
        name: Its name.
        arguments: Integers, texts as bytes, pointers, None.

    Returns:
        Its answer.

    Raises:
        OSError: If it fails.
    """
    function = getattr(_libc, name, None)
    if function is None:
        raise OSError(0, f"libc has no {name}")
    # An int would be passed in 32 bits, and a call looks at all 64.
    converted = (ctypes.c_long(item) if isinstance(item, int) else item for item in arguments)
    function.restype = ctypes.c_long if name == "syscall" else ctypes.c_int
    answer = int(function(*converted))
    if answer == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return answer


def syscall(number: int, *arguments: Any) -> int:
    """Make a system call that libc has no function for.

    Args:
        number: Its number.
        arguments: As for `call`.

    Returns:
        Its answer.

    Raises:
        OSError: If it fails.
    """
    return call("syscall", number, *arguments)


def prctl(option: int, *arguments: Any) -> int:
    """Change or ask something of the calling thread, with zeros for arguments that are not given.

    Args:
        option: What.
        arguments: At most four.

    Returns:
        Its answer.

    Raises:
        OSError: If it fails.
    """
    return call("prctl", option, *arguments, *[0] * (4 - len(arguments)))


def open_without_links(path: str) -> int:
    """Open a path that no symbolic link is part of, only to stand for it.

    Kernels write in folders that later ones are given: what is a link there by then may lead anywhere.

    Args:
        path: Absolute and normal.

    Returns:
        The descriptor.

    Raises:
        CannotConfine: If there is a link on the way, or at its end.
        OSError: If it cannot be opened.
    """
    folder = os.open("/", os.O_PATH | os.O_CLOEXEC)
    place = ""
    for name in os.path.normpath(path).split("/"):
        if not name:
            continue
        place += f"/{name}"
        try:
            inner = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
        if stat.S_ISLNK(os.fstat(folder).st_mode):
            os.close(folder)
            raise CannotConfine(f"{place} is a symbolic link, and {path} must have none: give where it leads")
    return folder


def below(path: str, folders: list[str]) -> bool:
    """Whether a path lies below one of some folders, as they are written.

    Args:
        path: The path.
        folders: The folders.

    Returns:
        Whether it does; a folder does not lie below itself.
    """
    return any(path.startswith(folder.rstrip("/") + "/") for folder in folders)


def threads() -> int:
    """How many threads this process has: exactly where /proc is there, else those that Python knows."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        import threading

        return threading.active_count()

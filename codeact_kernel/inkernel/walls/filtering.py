"""The filter of system calls: seccomp.

Comes in: a filter that was made beforehand, for this architecture. Goes out: a process, and later all of its
children, for which the calls that the filter refuses fail. `.ci/filters.py` says what it refuses, and makes it.
"""

from __future__ import annotations

import ctypes
import os

from .linux import PR_SET_SECCOMP, SECCOMP_MODE_FILTER, CannotConfine, prctl

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "filters")


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def kind_of(wanted: dict[str, bool]) -> str:
    """Which filter serves.

    Args:
        wanted: `network`: whether internet sockets may be of any ordinary type; `inet`: whether there may be any
            at all (they may where nothing is said).

    Returns:
        "network", "tcp" or "unix".
    """
    if wanted["network"]:
        return "network"
    return "tcp" if wanted.get("inet", True) else "unix"


def has_filter() -> bool:
    """Whether there is a filter for this architecture."""
    return os.path.exists(_file("unix"))


def read_filter(kind: str) -> bytes:
    """Read a filter; done before the process may not read it any more.

    Args:
        kind: As `kind_of` gives it.

    Returns:
        Its instructions.

    Raises:
        CannotConfine: If there is none for this architecture.
    """
    try:
        with open(_file(kind), "rb") as file:
            return file.read()
    except OSError as error:
        machine = os.uname().machine
        raise CannotConfine(f"no filter of system calls for {machine}: {error.strerror}") from error


def install(instructions: bytes) -> None:
    """Let a filter judge every system call of this thread and its children, for good.

    Args:
        instructions: The filter. The thread must have given up new privileges.

    Raises:
        CannotConfine: If the system does not take it.
    """
    program = _Program(len(instructions) // 8, instructions)
    try:
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))
    except OSError as error:
        raise CannotConfine(f"the system takes no filter of system calls: {error.strerror}") from error


def _file(kind: str) -> str:
    return os.path.join(FOLDER, f"{os.uname().machine}-{kind}.bpf")

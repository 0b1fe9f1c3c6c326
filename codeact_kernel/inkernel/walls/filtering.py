"""The filter of system calls: seccomp.

Comes in: a filter that was made beforehand, for this architecture. Goes out: a process, and later all of its
children, for which the calls that the filter refuses fail. `.ci/filters.py` says what it refuses, and makes it.
"""

from __future__ import annotations

import ctypes
import os

from .linux import (
    SECCOMP,
    SECCOMP_FILTER_FLAG_TSYNC,
    SECCOMP_SET_MODE_FILTER,
    CannotConfine,
    syscall,
)

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
    return "tcp" if wanted["inet"] else "unix"


def read_filters(wanted: dict[str, bool]) -> list[bytes]:
    """Read the filters for a description; done before the process may not read them any more.

    Args:
        wanted: As for `kind_of`, and `unix`: whether there may be unix sockets.

    Returns:
        Their instructions.

    Raises:
        CannotConfine: If there are none for this architecture.
    """
    kinds = [kind_of(wanted)] + ["sealed"] * (not wanted["unix"])
    return [read_filter(kind) for kind in kinds]


def has_filter() -> bool:
    """Whether there is a filter for this architecture."""
    return os.path.exists(_file("unix"))


def read_filter(kind: str) -> bytes:
    """Read a filter.

    Args:
        kind: As `kind_of` gives it, or "sealed".

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
    """Let a filter judge every system call of this process and its children, for good, besides those that do already.

    Args:
        instructions: The filter. The process must have given up new privileges.

    Raises:
        CannotConfine: If the system does not take it.
    """
    program = _Program(len(instructions) // 8, instructions)
    number = SECCOMP[os.uname().machine]
    try:
        # In all threads: the kernel seals itself when it has some.
        other = syscall(number, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, ctypes.byref(program))
    except OSError as error:
        raise CannotConfine(f"the system takes no filter of system calls: {error.strerror}") from error
    if other:
        raise CannotConfine(f"thread {other} has another filter of system calls, and cannot take this one")


def seal() -> None:
    """Let this process and its children make no further unix sockets, but pairs of streams.

    Landlock does not hold connections to sockets with a path: to the user's bus, whose service manager runs programs
    outside of all walls, to a terminal multiplexer, to an agent with keys. So a kernel that has the sockets it needs
    seals itself where it runs as the user. What it takes away: multiprocessing's managers and fork servers.

    Raises:
        CannotConfine: If the system does not take the filter.
    """
    install(read_filter("sealed"))


def _file(kind: str) -> str:
    return os.path.join(FOLDER, f"{os.uname().machine}-{kind}.bpf")

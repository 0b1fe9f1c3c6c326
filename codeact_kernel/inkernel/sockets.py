"""Ends waits for a socket: those of `recv`, `accept`, `connect`, `select` and their kin, in any thread.

Comes in: threads that do not react to an interrupt. Goes out: the sockets that they wait for, shut down, so that the
system call returns. Which these are is read from /proc: the number and the arguments of the call that a thread is
in. Where there is no /proc, or it says nothing, nothing is shut down.
"""

from __future__ import annotations

import os
import platform
import socket
import stat
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_ONE = {
    "x86_64": (0, 1, 42, 43, 44, 45, 46, 47, 288, 299, 307),
    "aarch64": (63, 64, 203, 202, 206, 207, 211, 212, 242, 243, 269),
}
"""By machine, the calls whose first argument is the descriptor: read, write, connect, accept, sendto, recvfrom,
sendmsg, recvmsg, accept4, recvmmsg, sendmmsg (asm/unistd.h)."""
_POLL = {"x86_64": (7, 271), "aarch64": (73,)}
"""poll and ppoll: an array of struct pollfd, and its length."""
_SELECT = {"x86_64": (23, 270), "aarch64": (72,)}
"""select and pselect6: how many bits, and three sets of them."""
_EPOLL = {"x86_64": (232, 281), "aarch64": (22,)}
"""epoll_wait and epoll_pwait."""


def sockets_of(threads: Iterable[int]) -> list[int]:
    """The descriptors of the sockets for which threads of this process wait.

    Args:
        threads: Their native ids.
    """
    if sys.platform != "linux":
        return []
    return sorted({fd for thread in threads for fd in waits_of(thread) if _is_socket(fd)})


def waits_of(thread: int) -> list[int]:
    """The descriptors that a thread of this process waits for in a system call.

    Args:
        thread: Its native id.
    """
    try:
        words = Path(f"/proc/self/task/{thread}/syscall").read_text().split()
        call, first, second, third, fourth = int(words[0]), *(int(word, 16) for word in words[1:5])
    except (OSError, ValueError):
        # It is gone, or runs, or this system does not tell.
        return []
    machine = platform.machine()
    if call in _ONE.get(machine, ()):
        return [first]
    if call in _POLL.get(machine, ()):
        entries = _memory(first, 8 * min(second, 1024))
        return [fd for fd, _, _ in struct.iter_unpack("ihh", entries) if fd >= 0]
    if call in _SELECT.get(machine, ()):
        size = (first + 7) // 8
        return sorted({fd for at in (second, third, fourth) if at for fd in _bits(_memory(at, size), first)})
    if call in _EPOLL.get(machine, ()):
        return _watched(first)
    return []


def _memory(address: int, size: int) -> bytes:
    """A stretch of this process's memory; empty where the thread has gone on and it is no longer there."""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            data = memory.read(size)
    except (OSError, ValueError, OverflowError):
        return b""
    return data if len(data) == size else b""


def _bits(data: bytes, count: int) -> list[int]:
    return [fd for fd in range(min(count, 8 * len(data))) if data[fd // 8] >> fd % 8 & 1]


def _watched(epoll: int) -> list[int]:
    """What an epoll descriptor watches."""
    with suppress(OSError):
        lines = Path(f"/proc/self/fdinfo/{epoll}").read_text().splitlines()
        return [int(line.split()[1]) for line in lines if line.startswith("tfd:")]
    return []


def _is_socket(fd: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False


def shut_down(sockets: Iterable[int]) -> None:
    """Shut sockets down, so that the calls that wait for them return.

    Args:
        sockets: Their descriptors. One that is closed or not connected is left as it is.
    """
    for fd in sockets:
        with suppress(OSError), socket.socket(fileno=os.dup(fd)) as copy:
            copy.shutdown(socket.SHUT_RDWR)

"""Joins another process's namespaces: for a process that was forked, and whose sandbox waits for it.

Comes in: a descriptor that stands for the other process (a pidfd). Goes out: a process that sees files, network,
names and users as that one does. Its children see its processes, too: the system moves nobody's own process id.
"""

from __future__ import annotations

import os

from .linux import CannotConfine, call, threads

FLAGS = {
    "cgroup": 0x02000000,
    "ipc": 0x08000000,
    "mnt": 0x00020000,
    "net": 0x40000000,
    "pid": 0x20000000,
    "time": 0x00000080,
    "user": 0x10000000,
    "uts": 0x04000000,
}
"""The kinds of namespaces as /proc names them, and as `setns` does."""


def join(pidfd: int) -> None:
    """Join every namespace of another process that is not one's own already, all at once. Before `confine`.

    Fork afterwards: only a child is in the other's namespace of process ids.

    Args:
        pidfd: Stands for the other process.

    Raises:
        CannotConfine: If the other one is gone, has no namespace of its own, or may not be joined. Then none was.
    """
    if (count := threads()) != 1:
        raise CannotConfine(f"the process has {count} threads, and only one can join")
    try:
        other = f"/proc/{_pid(pidfd)}/ns"
        flags = sum(flag for name, flag in FLAGS.items() if _differ(name, other))
        if not flags:
            raise CannotConfine("the process to join has no namespaces of its own")
        call("setns", pidfd, flags)
    except OSError as error:
        raise CannotConfine(f"the sandbox cannot be joined: {error.strerror}") from error


def _differ(name: str, other: str) -> bool:
    try:
        return os.readlink(f"/proc/self/ns/{name}") != os.readlink(f"{other}/{name}")
    except FileNotFoundError:
        if os.path.exists(f"/proc/self/ns/{name}"):
            raise
        # A kind that this system does not have.
        return False


def _pid(pidfd: int) -> int:
    with open(f"/proc/self/fdinfo/{pidfd}") as information:
        for line in information:
            name, _, value = line.partition(":")
            if name == "Pid":
                pid = int(value)
                if pid > 0:
                    return pid
    raise CannotConfine("the process to join is gone, or the descriptor stands for none")

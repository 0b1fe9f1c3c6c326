"""Numbers of users that nobody is: each kernel of a root host runs as one of its own.

Comes in: nothing. Goes out: `Lease`s. No account is made; the numbers lie where systemd's list of uid ranges
(https://systemd.io/UIDS-GIDS/) has nobody, above its containers and below 2**31.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
from contextlib import suppress
from pathlib import Path

from codeact_kernel.errors import KernelError

FIRST, COUNT = 1_900_000_000, 4096
LOCKS = Path("/run/codeact-kernel")
"""A file for each number that is in use, locked by the process that uses it: no other run has it then."""


class Lease:
    """A uid (and gid of the same number) that no other kernel has.

    Args:
        uid: That of a kernel which lives already, whose keeper has the lock; None takes a free one.
    """

    def __init__(self, uid: int | None = None) -> None:
        self._lock = -1
        if uid is not None:
            self.uid = uid
            return
        LOCKS.mkdir(mode=0o700, exist_ok=True)
        for offset in random.sample(range(COUNT), COUNT):
            self.uid = FIRST + offset
            self._lock = os.open(LOCKS / str(self.uid), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._lock)
                continue
            # A host that was killed may have left something behind.
            sweep(self.uid)
            return
        raise KernelError("all user numbers for kernels are in use")

    @property
    def locks(self) -> tuple[int, ...]:
        """The descriptors that keep it from others, for who has to keep it when this process is gone."""
        return (self._lock,) if self._lock >= 0 else ()

    def close(self) -> None:
        """End what still runs under it, and give it back, unless another process has it."""
        if self._lock >= 0:
            sweep(self.uid)
            os.close(self._lock)
            self._lock = -1


def sweep(uid: int) -> None:
    """End every process of a user."""
    for _ in range(100):
        found = [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and _is_of(entry, uid)
        ]
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _is_of(entry: Path, uid: int) -> bool:
    with suppress(OSError):
        # A dead process that nobody has waited for is no process any more.
        return entry.stat().st_uid == uid and b") Z " not in (entry / "stat").read_bytes()
    return False

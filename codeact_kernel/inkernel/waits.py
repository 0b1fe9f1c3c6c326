"""Waits that an interrupt gets through, in threads that no signal reaches.

Comes in: waits of user code in a worker's thread, in the async lane's, or in a thread that a block has started:
`time.sleep`, conditions (and so events, queues, semaphores, futures), `Thread.join`. Goes out: the same waits in
slices, because an exception from another thread lands between two bytecodes, and never inside a wait in C. The main
thread's waits are left as they are: a signal ends them.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from codeact_kernel.inkernel.request import current

SLICE = 0.05
"""Seconds of one slice: what an interrupt waits at most, at 20 wake-ups a second of a thread that waits."""

_main = threading.main_thread()
_sleep, _join, _allocate = time.sleep, threading.Thread.join, threading._allocate_lock  # type: ignore[attr-defined]


def adopt_waits() -> None:
    """From now on these waits of requests' code outside of the main thread are made in slices."""
    time.sleep = sleep  # type: ignore[assignment]
    threading.Thread.join = join  # type: ignore[method-assign]
    # `Condition.wait` makes a lock for each wait, by this name. What else does so waits for a moment only.
    threading._allocate_lock = _waiter  # type: ignore[attr-defined]


def sleep(seconds: float, /) -> None:
    """Suspend the calling thread for a number of seconds, a fraction included."""
    if not isinstance(seconds, int | float) or seconds <= SLICE or not _is_sliced():
        _sleep(seconds)
        return
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        _sleep(min(left, SLICE))


def join(self: threading.Thread, timeout: float | None = None) -> None:
    """Wait until the thread ends, or for a number of seconds."""
    if not _is_sliced():
        _join(self, timeout)
        return
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = SLICE if end is None else end - time.monotonic()
        _join(self, min(left, SLICE))
        if not self.is_alive() or (end is not None and left <= SLICE):
            return


def _is_sliced() -> bool:
    return threading.current_thread() is not _main and current.get() is not None


def _waiter() -> Any:
    return _SlicedLock() if _is_sliced() else _allocate()


class _SlicedLock:
    """A lock that is waited for in slices."""

    def __init__(self) -> None:
        self._lock = _allocate()
        self.release = self._lock.release
        self.locked = self._lock.locked
        self._at_fork_reinit = self._lock._at_fork_reinit

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As of any lock."""
        if not blocking or 0 <= timeout <= SLICE:
            return bool(self._lock.acquire(blocking, timeout))
        end = None if timeout < 0 else time.monotonic() + timeout
        while True:
            left = SLICE if end is None else end - time.monotonic()
            if self._lock.acquire(True, max(0.0, min(left, SLICE))):
                return True
            if end is not None and left <= SLICE:
                return False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()

"""How much memory a kernel's processes hold, from its start to its end.

Comes in: a process, and how much its owner allows. Goes out: a curve of readings that stays small however long the
kernel lives, a warning before a limit is reached, and the word that `max_memory` was passed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from codeact_kernel.sizes import format_size

EVERY = 1.0
"""Seconds between two readings; ours: a reading takes some milliseconds of another thread, and a block that fills a
machine's memory faster than that is rare."""
POINTS = 1024
"""Points of a curve at most; ours: a quarter of an hour to the second, a day to the two minutes."""
WARN, CALM = 0.8, 0.7
"""Shares of the limit: past the first the model is warned, and again only after memory fell below the second."""
SHARE = 0.9
"""Of what there is, what a kernel in a sandbox may hold where nobody has said how much: past it the system would end
something, and that need not be the kernel."""
NAMES = 20
"""Names that a warning lists."""
_NONE = 2**60
"""A limit of a cgroup as high as this is none: v1 writes a number near 2**63 for it."""

_READER = ThreadPoolExecutor(1, "memory of kernels")
"""Reads for all kernels. A thread of its own, because tools can keep all threads of the loop busy."""

Point = tuple[float, int]
"""Seconds since the epoch, and bytes."""


class Curve:
    """Readings, the whole life in at most `POINTS` points.

    Each point stands for the same number of readings and is the largest of them; once there are too many points,
    two become one.
    """

    def __init__(self, most: int = POINTS) -> None:
        self._most = most
        self._points: list[Point] = []
        self._each = 1
        """Readings that a point stands for."""
        self._in_last = 0

    @property
    def points(self) -> tuple[Point, ...]:
        """The points, oldest first."""
        return tuple(self._points)

    def add(self, point: Point) -> None:
        """Append a reading.

        Args:
            point: The reading.
        """
        if len(self._points) >= self._most and self._in_last >= self._each:
            self._in_last = self._each * (1 + (len(self._points) % 2 == 0))
            self._points = [_larger(self._points[at : at + 2]) for at in range(0, len(self._points), 2)]
            self._each *= 2
        if self._points and self._in_last < self._each:
            self._points[-1] = _larger([self._points[-1], point])
            self._in_last += 1
        else:
            self._points.append(point)
            self._in_last = 1


def _larger(points: Sequence[Point]) -> Point:
    return max(points, key=lambda point: point[1])


@dataclass(frozen=True, slots=True)
class Limit:
    """What a kernel's processes may hold."""

    size: int
    name: str
    """Whose limit it is, in words."""


def least_limit(max_memory: int | None, root: Path = Path("/")) -> Limit:
    """The limit that is reached first.

    Args:
        max_memory: What the owner allows, in bytes; None for all there is.
        root: The root of the file system.
    """
    limits = [Limit(psutil.virtual_memory().total, "the machine's memory")]
    limits += [Limit(size, "the limit of its control group") for size in _cgroup_limits(root)]
    limits += [Limit(max_memory, "max_memory")] if max_memory is not None else []
    # Of equal ones the last: it is the one that somebody has chosen.
    return min(reversed(limits), key=lambda limit: limit.size)


def most_memory(max_memory: int | None, limit: Limit | None = None, *, share: bool) -> Limit | None:
    """The limit past which a kernel is ended.

    Args:
        max_memory: What its owner allows, in bytes; None for no such limit, or a share of what there is.
        limit: What there is; None looks.
        share: Whether, where there is no `max_memory`, it is a share of that.
    """
    if max_memory is not None:
        return Limit(max_memory, "max_memory")
    if not share:
        return None
    limit = limit or least_limit(None)
    return Limit(int(SHARE * limit.size), f"a sandbox's share of {limit.name}")


def _cgroup_limits(root: Path) -> Iterable[int]:
    """The limits of the control groups that this process, and so what it starts, is in: v2 and v1."""
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            top, file = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            top, file = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container the path may be the one outside of it; what does not exist here has no limit to read.
        folder = top / path.lstrip("/")
        for group in (folder, *folder.parents):
            with suppress(OSError, ValueError):
                size = int((group / file).read_text())
                if 0 < size < _NONE:
                    yield size
            if group == top:
                break


class Together:
    """What the kernels of a run hold, each as it was read last: a limit is one for all of them."""

    def __init__(self) -> None:
        self._sizes: dict[Memory, int] = {}

    def take(self, kernel: Memory, size: int) -> tuple[int, bool]:
        """Take a reading.

        Args:
            kernel: Whose it is.
            size: Bytes.

        Returns:
            What all of them hold, and whether none holds more than this one.
        """
        self._sizes[kernel] = size
        return sum(self._sizes.values()), size >= max(self._sizes.values())

    def leave(self, kernel: Memory) -> None:
        """Take that a kernel's processes are gone."""
        self._sizes.pop(kernel, None)


class Memory:
    """Watches a kernel's memory.

    Args:
        max_memory: Bytes past which the kernel has to be ended; None for no such limit, or a share of what there is.
        names: Gives the names of its namespace, for the warning.
        warn: Called with the warning.
        limit: The limit before which is warned; None takes the least of all.
        share: Whether, where there is no `max_memory`, the kernel has to be ended past a share of that.
        together: Those with which it has these limits together; None for it alone.
    """

    def __init__(
        self,
        max_memory: int | None,
        names: Callable[[], Sequence[str]],
        warn: Callable[[str], None],
        limit: Limit | None = None,
        share: bool = False,
        together: Together | None = None,
    ) -> None:
        self.curve = Curve()
        self._together = together or Together()
        self._whole = 0
        """What all of them hold."""
        self.limit = limit or least_limit(max_memory)
        self._most = most_memory(max_memory, self.limit, share=share)
        if self._most is not None and max_memory is None:
            self.limit = self._most
        self._names = names
        self._warn = warn
        self._warned = False

    @property
    def left(self) -> int:
        """Bytes that its processes may still take, as far as the latest reading goes."""
        return max(0, self.limit.size - self._whole)

    async def watch(self, pid: int) -> str | None:
        """Read a process's memory until it has to be ended, or is gone.

        Args:
            pid: The process; what it has started counts, too.

        Returns:
            Why it has to be ended, as a clause that follows "the kernel"; None where it is gone.
        """
        loop = asyncio.get_running_loop()
        self._warned = False
        try:
            process = psutil.Process(pid)
            while True:
                size = await loop.run_in_executor(_READER, held, process)
                if (reason := self.take(time.time(), size)) is not None:
                    return reason
                await asyncio.sleep(EVERY)
        except psutil.Error:
            return None
        finally:
            self._together.leave(self)

    def take(self, at: float, size: int) -> str | None:
        """Take a reading: keep it, and warn where it is time. Of several kernels the one that holds most has to end.

        Args:
            at: Seconds since the epoch.
            size: Bytes.

        Returns:
            Why the kernel has to be ended, if it has.
        """
        self.curve.add((at, size))
        self._whole, is_largest = self._together.take(self, size)
        if self._most is not None and self._whole > self._most.size and is_largest:
            allowed = f"{format_size(self._most.size)} of {self._most.name}"
            return f"was ended at {format_size(size)} of memory{self._of_all(size)}, more than the {allowed}"
        if self._whole < CALM * self.limit.size:
            self._warned = False
        elif self._whole >= WARN * self.limit.size and not self._warned:
            self._warned = True
            self._warn(self._warning(size))
        return None

    def _of_all(self, size: int) -> str:
        """What others hold besides, as a part of a sentence; empty where there are none."""
        whole = format_size(self._whole)
        return f", the most of all kernels of the run, which hold {whole}" if self._whole > size else ""

    def _warning(self, size: int) -> str:
        names = self._names()
        whole = format_size(self._whole)
        others = f" of the {whole} of all kernels of the run" if self._whole > size else ""
        more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
        held = f" Names in the namespace: {', '.join(names[:NAMES])}{more}." if names else ""
        return (
            f"Memory runs short: the kernel's processes hold {format_size(size)}{others}, and {self.limit.name} is "
            f"{format_size(self.limit.size)}. Past that the kernel is ended, and every name in it is lost. Let go "
            "of what you no longer need (del name, then gc.collect(); Out keeps what a block has shown as its "
            f"value), and do the work in smaller pieces.{held}"
        )


def held(process: psutil.Process) -> int:
    """The resident memory of a process and all that it has started.

    Args:
        process: The process.

    Returns:
        Bytes. Where there is more than one process, pages that they share are counted once, if the system tells.

    Raises:
        psutil.NoSuchProcess: If it is gone.
    """
    children = process.children(recursive=True)
    if not children:
        return int(process.memory_info().rss)
    return _own(process) + sum(map(_own, children))


def _own(process: psutil.Process) -> int:
    """Of one among several processes, with its share of what they share."""
    with suppress(psutil.Error):
        try:
            return int(process.memory_full_info().pss)
        except (AttributeError, psutil.AccessDenied):
            return int(process.memory_info().rss)
    return 0

"""How much a kernel's blocks write to the disk.

Comes in: the folders that they can write, and how much their owner allows. Goes out: the word that it was passed. No
mode of a sandbox holds that without a set-up of the machine (a quota, or a file system of its own); it is watched.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from codeact_kernel.sizes import format_size

EVERY = 1.0
"""Seconds between two looks at how full the file systems are; one costs some microseconds."""
STEP = 0.1
"""What part of the allowance has to be used up before files are looked at again, where others write, too."""
REST = 4.0
"""Seconds after which files are looked at in any case: what others have removed meanwhile hides what is written."""
COST = 100
"""How many times as long as it took to look at all files they are left alone after that: one part in so many."""
_BLOCK = 512
"""Bytes of what st_blocks counts (inode(7))."""

_READER = ThreadPoolExecutor(1, "disk of kernels")


class Disk:
    """Watches folders from now on.

    Args:
        folders: The folders.
        most: Bytes that files which are written in them from now on may take, in all.
    """

    def __init__(self, folders: Sequence[Path], most: int) -> None:
        self._folders = tuple(folders)
        self._most = most
        self._began = time.time()
        self._used = self._used_now()
        self._look_at = self._used + most

    async def watch(self) -> str:
        """Wait until too much is written.

        Returns:
            Why the kernel has to be ended, as a clause that follows "the kernel".
        """
        loop = asyncio.get_running_loop()
        look_by = loop.time() + REST
        while True:
            if self._used_now() >= self._look_at or loop.time() >= look_by:
                began = loop.time()
                size = await loop.run_in_executor(_READER, self.written)
                look_by = loop.time() + max(REST, COST * (loop.time() - began))
                if size > self._most:
                    allowed = format_size(self._most)
                    return (
                        f"was ended: blocks wrote {format_size(size)}, more than the {allowed} of max_growth"
                    )
                self._look_at = self._used_now() + int(self._most * STEP)
            await asyncio.sleep(EVERY)

    def written(self) -> int:
        """Bytes on the disk of all files in the folders that were written since it began to watch."""
        return sum(_sizes(self._folders, self._began))

    def _used_now(self) -> int:
        """Bytes that are in use on the file systems of the folders: a rise is a reason to look, no more."""
        systems = {}
        for folder in self._folders:
            with suppress(OSError):
                state = os.statvfs(folder)
                systems[state.f_fsid] = (state.f_blocks - state.f_bfree) * state.f_frsize
        return sum(systems.values())


def _sizes(folders: Sequence[Path], since: float) -> Iterator[int]:
    seen: set[tuple[int, int]] = set()
    todo = [os.fspath(folder) for folder in folders]
    while todo:
        with suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    state = entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                    elif state.st_ctime >= since - 1 and (state.st_dev, state.st_ino) not in seen:
                        seen.add((state.st_dev, state.st_ino))
                        yield state.st_blocks * _BLOCK

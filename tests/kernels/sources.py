"""What tests of forked kernels look at: who a process's parent is, and what of it lives."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import psutil


def parent_of(pid: int) -> int:
    """A process's parent."""
    return psutil.Process(pid).ppid()


def alive(pid: int) -> bool:
    """Whether a process can still do something."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


async def until(true, seconds: float = 20) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.02)

"""What an agent has that outlives a compaction, as it is at this moment.

Comes in: the stations that know. Goes out: `Alive`, in bounded time: a kernel that does not answer, or a workspace that
is large, makes it poorer, not late.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from codeact_kernel.blocks import AgentBlock
from codeact_kernel.context import (
    Alive,
    AliveAgent,
    AliveBlock,
    AliveFile,
    AliveProcess,
    AliveVariable,
)
from codeact_kernel.errors import KernelError
from codeact_kernel.kernels import Kernel
from codeact_kernel.supervisor import LiveBlock, Supervisor
from codeact_kernel.threads import DaemonThreads

PATIENCE = 2.0
"""Seconds in which the kernel says what it holds, and the disk what lies on it. An idle kernel takes some milliseconds;
C code that keeps the interpreter's lock may take any time."""
LOOK = 0.5
"""Seconds for which the workspace is looked through: some 15,000 files on two busy cores."""
FILES = 500
"""Files that are kept of those that were written."""
_TICK = 0.02
"""Seconds by which the clock of a file system may lag behind: it goes on by ticks of at most 10 ms on Linux."""
_SHORT_VALUE = 60
_SKIPPED = ("__pycache__", "node_modules", "site-packages")
"""Folders of programs; those whose name begins with a dot are skipped, too."""

_threads = DaemonThreads()

HISTORY = 'self.history has all that was said before: self.history.search("…") finds it, self.history.task is the task.'


class Survey:
    """Tells what is alive.

    Args:
        supervisor: Has the blocks in hand.
        kernel: Runs them.
        workspace: Where they write.
        record: Where the record is, which no block writes.
        wall: The time in seconds since the epoch.
        more: Gives further lines.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        kernel: Kernel,
        workspace: Path,
        record: Callable[[], Path | None] = lambda: None,
        wall: Callable[[], float] = time.time,
        more: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._supervisor = supervisor
        self._kernel = kernel
        self._workspace = workspace
        self._record = record
        self._wall = wall
        self._more = more
        self._since = wall()

    async def __call__(self) -> Alive:
        """Look."""
        variables, processes = await self._asked()
        files, all_files = await self._written()
        # Last, since the others take time: what has ended meanwhile is no longer running.
        live, now, results = self._supervisor.live, self._wall(), self._supervisor.results
        agents = {name for name, result in results.items() if isinstance(result.block, AgentBlock)}
        return Alive(
            blocks=tuple(_block(b, now) for b in live if not isinstance(b.block, AgentBlock)),
            agents=tuple(
                AliveAgent(b.id, b.block.task, now - b.started if b.started else None)
                for b in live
                if isinstance(b.block, AgentBlock)
            ),
            processes=processes,
            variables=variables,
            outputs=tuple(name for name in results if name not in agents) if self._kernel.ours else (),
            results=tuple(name for name in results if name in agents),
            files=files,
            all_files=all_files,
            more=(*self._more(), *([HISTORY] if self._kernel.ours else ())),
        )

    async def _written(self) -> tuple[tuple[AliveFile, ...], bool]:
        """What was written, unless the disk does not answer: a call that hangs there is left to its thread."""
        loop, about = asyncio.get_running_loop(), (self._workspace, self._since, self._record())
        looking = loop.run_in_executor(_threads, written, *about)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                return await looking
        return (), False

    async def _asked(self) -> tuple[tuple[AliveVariable, ...], tuple[AliveProcess, ...]]:
        if self._kernel.ours:
            with suppress(KernelError, TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    variables, processes = await self._kernel.survey()
                return tuple(map(_variable, variables)), tuple(map(_process, processes))
        return tuple(map(AliveVariable, self._kernel.names)), ()


def _block(live: LiveBlock, now: float) -> AliveBlock:
    code = "" if isinstance(live.block, AgentBlock) else live.block.code
    return AliveBlock(
        live.id,
        code,
        now - live.started if live.started else None,
        live.deadline - now if live.deadline else None,
    )


def _variable(told: dict[str, str]) -> AliveVariable:
    value = told["value"] if not told["size"] and len(told["value"]) <= _SHORT_VALUE else ""
    summary = " ".join(filter(None, (told["type"], told["size"], value)))
    return AliveVariable(told["name"], summary, int(told["bytes"]) if told["bytes"] else None)


def _process(told: dict[str, Any]) -> AliveProcess:
    return AliveProcess(told["pid"], told["command"], told["block"])


def written(
    folder: Path, since: float, skipped: Path | None = None, seconds: float = LOOK
) -> tuple[tuple[AliveFile, ...], bool]:
    """Find the files below a folder that were written since a moment, without following links.

    Args:
        folder: The folder.
        since: The moment, in seconds since the epoch.
        skipped: A folder that is left out.
        seconds: How long may be looked.

    Returns:
        The files, latest first; whether all of the folder was looked at.
    """
    found: list[tuple[float, str, int]] = []
    end, complete = time.monotonic() + seconds, True
    for entry in _below(folder, skipped):
        with suppress(OSError):
            about = entry.stat(follow_symlinks=False)
            # A copy may keep its original's time of writing, but not that of its own making.
            at = max(about.st_mtime, about.st_ctime)
            if at >= since - _TICK and entry.is_file(follow_symlinks=False):
                found.append((at, os.path.relpath(entry.path, folder), about.st_size))
        if time.monotonic() > end:
            complete = False
            break
    found.sort(reverse=True)
    return tuple(AliveFile(path, size) for _, path, size in found[:FILES]), complete


def _below(folder: Path, skipped: Path | None) -> Iterator[os.DirEntry[str]]:
    folders = deque([str(folder)])
    while folders:
        with suppress(OSError), os.scandir(folders.popleft()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False) and not (
                    entry.name.startswith(".") or entry.name in _SKIPPED or entry.path == str(skipped)
                ):
                    folders.append(entry.path)

"""Lets a kernel outlive its host: the parent of its process, with the clock of its lease.

Comes in: a command, and hosts: each is one connection to its socket, for as long as that process lives. Goes out: the
command's process, and its exit code. While no host is there it sees to what that would see to: what memory and disk the
kernel takes. When the lease is over, or a limit is passed, it ends the kernel with all below it, and its folders.

The file runs as that process itself: `python -I keeper.py ABOUT -- PROGRAM ARGUMENT…`. What it needs of this package it
imports once it is alone: until then it costs little.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

CALM = 1.0
"""Seconds for which it only waits for the next host."""
PARENT = "JPY_PARENT_PID"
"""The variable that tells a kernel whose end is its own: the keeper's, where it is the parent."""


class Keeper:
    """Takes hosts, one at a time.

    Args:
        about: "packages": where this package lies, and what it needs; "socket": where hosts connect; "gone": the pipe
            on which the kernel hears that one is gone; "folders": what is removed with the kernel; "parent": whether
            the kernel ends with its parent; and the terms, which each host gives anew: "lease": seconds; "memory":
            bytes that it may hold, or null; "disk": [folders, bytes by which they may grow], or null.
        kernel: The process that it has started.
    """

    def __init__(self, about: dict[str, Any], kernel: int) -> None:
        self._about = about
        self._kernel = kernel
        self._number = 0
        self._host: asyncio.StreamWriter | None = None
        self._changed = asyncio.Event()

    async def keep(self) -> bool:
        """Wait until the kernel has ended.

        Returns:
            Whether a host is there that sees to the rest; else the kernel has to be ended, if it has not.
        """
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(os.pidfd_open(self._kernel), ended.set)
        async with await asyncio.start_unix_server(self._take, self._about["socket"]):
            while not ended.is_set():
                self._changed.clear()
                # For ever where a host is there.
                alone = asyncio.ensure_future(asyncio.Event().wait() if self._host else self._alone())
                waits = [alone, *map(asyncio.ensure_future, (ended.wait(), self._changed.wait()))]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                is_over = alone.done()
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)
                if is_over:
                    alone.result()
                    return False
            if self._host is None:
                return False
            self._changed.clear()
            self._host.close()
            await self._changed.wait()
            return True

    async def _alone(self) -> None:
        """Wait until the kernel has to end for want of a host, or for what it takes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._about["lease"]):
                await asyncio.sleep(CALM)
                from codeact_kernel.kernels.disk import Disk
                from codeact_kernel.kernels.memory import Memory

                watches: list[Any] = [asyncio.Event().wait()]
                if self._about.get("memory") is not None:
                    memory = Memory(self._about["memory"], lambda: (), lambda text: None)
                    watches.append(memory.watch(self._kernel))
                if self._about.get("disk") is not None:
                    folders, most = self._about["disk"]
                    watches.append(Disk([*map(Path, folders)], most).watch())
                tasks = [asyncio.ensure_future(watch) for watch in watches]
                try:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in tasks:
                        task.cancel()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._host is not None or _user_of(writer) != os.geteuid():
            writer.close()
            return
        self._host = writer
        self._number += 1
        self._changed.set()
        writer.write(json.dumps({"host": self._number}).encode() + b"\n")
        with suppress(OSError, ValueError):
            while told := await reader.readline():
                self._about |= json.loads(told)
        self._host = None
        self._tell(self._number)
        self._changed.set()

    def _tell(self, number: int) -> None:
        """Tell the kernel that its host is gone. It may have put anything in the place of the pipe."""
        with suppress(OSError):
            pipe = os.open(self._about["gone"], os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            try:
                if stat.S_ISFIFO(os.fstat(pipe).st_mode):
                    os.write(pipe, b"%d\n" % number)
            finally:
                os.close(pipe)


def _user_of(writer: asyncio.StreamWriter) -> int:
    peer = writer.get_extra_info("socket")
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)


def _end(about: dict[str, Any], kernel: int) -> None:
    from codeact_kernel.kernels.janitor import end

    end(kernel)
    for folder in about["folders"]:
        shutil.rmtree(folder, ignore_errors=True)


def main(about: dict[str, Any], command: list[str]) -> int:
    """Start a kernel and keep it.

    Args:
        about: As for `Keeper`.
        command: What starts it.

    Returns:
        Its exit code; past 128 for a signal, as shells have it.
    """
    env = os.environ | ({PARENT: str(os.getpid())} if about["parent"] else {})
    kernel = subprocess.Popen(command, env=env)
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.path += about["packages"]
    has_host = False
    try:
        has_host = asyncio.run(Keeper(about, kernel.pid).keep())
    finally:
        if not has_host:
            _end(about, kernel.pid)
    code = kernel.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), sys.argv[3:]))

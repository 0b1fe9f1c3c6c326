"""Kernels that outlive their host: the host's hold on one, and how another host finds it.

Comes in: how long a lease is, and how a kernel is started. Goes out: the command by which a keeper (`keeper.py`) starts
it; a `Hold`, a connection that says that this host lives; and a `Leased`, by which a later host takes hold in turn.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jupyter_client
import psutil
import zmq

from codeact_kernel.errors import KernelError
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.forked import ForkedProcess, Refused
from codeact_kernel.kernels.interpreter import Launch
from codeact_kernel.kernels.memory import most_memory
from codeact_kernel.kernels.sandbox import OWN, PACKAGE, own_folder
from codeact_kernel.kernels.settings import KernelSettings

NEEDED = (psutil, jupyter_client, zmq)
"""What a keeper needs. It looks for modules only where this process has found these, not where blocks may write."""
KEEPER = Path(__file__).with_name("keeper.py")
START = 20.0
"""Seconds that a keeper may take to listen, and that it waits for its first host; it takes a tenth of one."""
ANSWER = 5.0
"""Seconds that a kernel which lived on has to answer in."""
RETRY = 0.02
"""Seconds between two tries to reach a keeper."""


class Gone(KernelError):
    """A kernel that was leased cannot be taken up; the text says why, as what follows "the kernel"."""


@dataclass(frozen=True, slots=True)
class Leased:
    """Where a kernel is that outlives its host."""

    folder: str
    """The kernel's."""
    socket: str
    """Its keeper's, in a private folder."""
    pid: int
    """The keeper's."""
    started: int
    """When that process was started, in ticks since the machine was: no later one with its number is taken for it."""
    walls: str
    """What it was started with, in short: who wants another kernel does not take it."""
    uid: int | None = None
    """Its own user number, where it has one."""


@dataclass(frozen=True, slots=True)
class LivedOn:
    """What became of a kernel's process that may have outlived its host."""

    fault: str = ""
    """Why it could not be taken up, as what follows "the kernel"; empty where it was."""
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What it knows of blocks, by msg_id: "id", the block's; "held", whether nobody has let it run; its state, as in
    `wire.STATE`."""


class Hold:
    """A host's hold on a kernel: the keeper counts the lease from its end.

    Args:
        launch: How the kernel is started.
        settings: Which kernel it is.
        place: The keeper's socket; None for a new one, in a folder that no kernel reaches.
    """

    def __init__(self, launch: Launch, settings: KernelSettings, place: Path | None = None) -> None:
        self._launch = launch
        self._settings = settings
        self._place = place or Path(tempfile.mkdtemp(prefix="ck-")) / "keeper"
        self._connection: socket.socket | None = None
        self.number = 0
        """Which of the kernel's hosts this one is."""

    def prepare(self, folder: Path) -> None:
        """Make what the kernel hears of its host's end by.

        Args:
            folder: The kernel's.
        """
        os.mkfifo(own_folder(folder) / wire.GONE_PIPE, 0o600)

    def command(self, program: Sequence[str], folder: Path, *, parent: bool) -> list[str]:
        """The command that starts a kernel and keeps it.

        Args:
            program: What starts the kernel.
            folder: The kernel's.
            parent: Whether the kernel watches its parent, and ends with that.
        """
        told = {
            "packages": sorted(
                {str(PACKAGE.parent), *(str(Path(str(m.__file__)).parents[1]) for m in NEEDED)}
            ),
            "socket": str(self._place),
            "gone": str(folder / OWN / wire.GONE_PIPE),
            "folders": [str(folder), str(self._place.parent)],
            "parent": parent,
            "lease": START,
        }
        return [sys.executable, "-I", str(KEEPER), json.dumps(told), "--", *program]

    async def take(self, folder: Path, patience: float, uid: int | None) -> Leased:
        """Connect to the keeper, and tell what holds while no host is there.

        Args:
            folder: The kernel's.
            patience: Seconds that the keeper may take to listen, and to have seen the end of the host before.
            uid: The kernel's own user number.

        Returns:
            Where the kernel is. Whose process listens there, the system says, not the process.

        Raises:
            Gone: If nobody of ours listens there.
        """
        why = "has ended meanwhile"
        try:
            async with asyncio.timeout(patience):
                while True:
                    try:
                        pid = await self._take(self._terms(folder))
                        started = start_of(pid)
                        walls = walls_of(self._launch, self._settings)
                        return Leased(str(folder), str(self._place), pid, started, walls, uid)
                    except ConnectionResetError:
                        why = "is held by another process"
                    except (FileNotFoundError, ConnectionRefusedError):
                        why = "has ended meanwhile"
                    await asyncio.sleep(RETRY)
        except (OSError, ValueError) as error:  # a timeout is one
            raise Gone(why) from error

    def _terms(self, folder: Path) -> dict[str, Any]:
        sandbox = self._settings.sandbox
        most = most_memory(self._settings.max_memory, share=sandbox is not None)
        disk = None
        if sandbox is not None:
            disk = [[str(sandbox.workspace), str(folder / OWN)], sandbox.settings.max_growth]
        return {"lease": self._settings.lease, "memory": None if most is None else most.size, "disk": disk}

    async def _take(self, terms: dict[str, Any]) -> int:
        owner = os.lstat(self._place.parent)
        if owner.st_uid != os.geteuid() or owner.st_mode & 0o077:
            raise Gone("is none of this user's")
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        try:
            loop = asyncio.get_running_loop()
            await loop.sock_connect(connection, str(self._place))
            pid, uid, _ = struct.unpack(
                "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            )
            if uid != os.geteuid():
                raise Gone("is none of this user's")
            greeting = await loop.sock_recv(connection, 4096)
            if not greeting:
                raise ConnectionResetError("another host holds it")
            self.number = int(json.loads(greeting)["host"])
            await loop.sock_sendall(connection, json.dumps(terms).encode() + b"\n")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return int(pid)

    def let_go(self) -> None:
        """Let go of a kernel that may live on."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Let go of a kernel that has ended, and remove the keeper's folder."""
        self.let_go()
        shutil.rmtree(self._place.parent, ignore_errors=True)


def start_of(pid: int) -> int:
    """When a process was started, in ticks since the machine was.

    Args:
        pid: The process.

    Raises:
        OSError: If there is none.
    """
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])


def walls_of(launch: Launch, settings: KernelSettings) -> str:
    """What a kernel is started with, in short: the program, its folder, its environment and its sandbox."""
    sandbox = settings.sandbox
    inside = None
    if sandbox is not None:
        inside = (sandbox.mode, sandbox.settings, sandbox.workspace, sandbox.roots, sandbox.own_uid)
    asked = (launch.argv, launch.env, settings.cwd, settings.env, settings.variables, inside)
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:32]


async def take_hold(
    launch: Launch, settings: KernelSettings, leased: Leased
) -> tuple[Hold, ForkedProcess, Leased]:
    """Take hold of a kernel that has outlived its host.

    Args:
        launch: How a new one would be started.
        settings: Which kernel is wanted.
        leased: Where it is.

    Returns:
        The hold, the keeper's process, and where it is if it is what is wanted now. No other process is taken for it:
        neither one with its number, nor one that listens at its place.

    Raises:
        Gone: If it has ended, or is not what it should be.
    """
    if not await asyncio.to_thread(os.path.exists, leased.socket):
        raise Gone("has ended meanwhile")
    hold = Hold(launch, settings, Path(leased.socket))
    try:
        found = await hold.take(Path(leased.folder), ANSWER, leased.uid)
        process = ForkedProcess(os.pidfd_open(found.pid))
        if (found.pid, found.started, found.started) != (leased.pid, leased.started, start_of(found.pid)):
            process.close()
            raise Gone("is not the one that the record tells of")
    except (OSError, Refused) as error:
        hold.let_go()
        raise Gone("has ended meanwhile") from error
    except Gone:
        hold.let_go()
        raise
    return hold, process, found


def connection_of(folder: Path) -> dict[str, Any]:
    """How to speak with a kernel that lived on.

    Args:
        folder: Its folder. The file in it may be its own work by now; it says nothing of where the kernel is.

    Raises:
        Gone: If that cannot be read.
    """
    try:
        told = json.loads((folder / "kernel.json").read_bytes())
        ports = {name: int(told[name]) for name in told if name.endswith("_port")}
        key = str(told["key"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Gone("has lost its connection file") from error
    return {**told, **ports, "key": key, "transport": "ipc", "ip": str(folder / OWN / "s")}

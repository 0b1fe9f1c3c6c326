"""The processes of requests: which they are, signals to them, and their end.

Comes in: each start of a child, with whose it is. Goes out: the tree of a request's processes, to list, to
interrupt and to end. A child is known by three marks, each of which survives what breaks the others: its id, noted
at its start; a variable in its environment, which what it starts inherits also in new sessions; and its parent,
because this process takes in all below it whose own parents have ended. Those it also waits for, by their ids:
what code has started itself, it asks for itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codeact_kernel.inkernel import processes
from codeact_kernel.inkernel.checkpoint.copying import copies
from codeact_kernel.inkernel.processes import Process
from codeact_kernel.inkernel.request import Request

if TYPE_CHECKING:
    from codeact_kernel.inkernel.outbox import Outbox
    from codeact_kernel.inkernel.pipes import Pipe

MARK = "CODEACT_REQUEST"
"""The variable in the environment of children: the msg_id of the request whose code started them."""
PATIENCE = 0.5
"""Seconds that a child gets between SIGTERM and SIGKILL."""
LAST_PATIENCE = 2.0
"""Seconds that SIGKILL may take; what is left then cannot be ended (it waits for a device)."""
POLL = 0.02
"""Seconds between looks at what has not ended yet."""


@dataclass(eq=False)
class Brood:
    """The children of one request."""

    request: Request
    outbox: Outbox
    """The request's; while there are pipes, a `TextFirst` stands for it in the request."""
    pids: dict[int, int | None] = field(default_factory=dict)
    """When each started, as in `Process.started`; None where that cannot be seen."""
    pipes: list[Pipe] = field(default_factory=list)
    ends: tuple[int, int] | None = None
    """What a child gets as its stdout and stderr: the writing ends, while this process holds them."""
    starting: set[int] = field(default_factory=set)
    """The threads in which a child is being started. An interrupt can land so that one stays in here; the end of
    the request's own code puts that right, or the end of the thread."""
    left: bool = False
    """Whether the request has ended."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come of it, as far as its own notes say."""
        reading = any(not pipe.ended for pipe in self.pipes)
        return self.left and not (self.pids or self.starting or reading)


class Trees:
    """The processes of all requests.

    Args:
        kept: The ids of the processes that a request keeps for later.
    """

    def __init__(self, kept: Callable[[Request], set[int]]) -> None:
        self.kept = kept
        self._lock = threading.Lock()
        self._broods: dict[str, Brood] = {}
        self._nobodys: dict[int, int | None] = {}
        self._ended_before: set[int] = set()

    def find(self, msg_id: str | None) -> Request | None:
        """The request of that id, if it has children.

        Args:
            msg_id: Its id.
        """
        brood = self._broods.get(msg_id or "")
        return brood.request if brood else None

    def of(self, request: Request | None) -> list[tuple[int, str]]:
        """The living processes of a request: what its code started and what that started, in any session.

        Args:
            request: The request; None for all below this process.

        Returns:
            (id, command line) of each, parents before their children.
        """
        return [(process.pid, process.command) for process in self._tree(request)]

    def told(self) -> list[dict[str, Any]]:
        """The living processes below this one: pid, command, and the block, None for nobody's."""
        blocks = {pid: request.block_id for pid, request in self.owners().items() if request is not None}
        return [
            {"pid": pid, "command": command, "block": blocks.get(pid)}
            for pid, command in self.of(None)
            if pid not in copies
        ]

    def owners(self) -> dict[int, Request | None]:
        """Whose each process below this one is, by its id; None where it is nobody's."""
        return self._owners(processes.family(os.getpid()))

    def interrupt(self, request: Request, first: Callable[[], object]) -> None:
        """Send SIGINT to all processes of a request that it does not keep for later.

        Args:
            request: The request.
            first: Called before, if there are any.
        """
        tree = self._tree(request, sparing=True) if request.msg_id in self._broods else []
        if tree:
            first()
            request.signalled.update(tree)
        for process in tree:
            process.send(signal.SIGINT)

    async def end(self, request: Request | None, *, sparing: bool = False) -> list[int]:
        """End the processes of a request: SIGTERM, and SIGKILL for what is still there a moment later.

        Args:
            request: The request; None for all below this process.
            sparing: Whether those that it keeps for later are left alone.

        Returns:
            The ids of those that have ended; of a request also of those that an interrupt has ended before.
        """
        told: set[Process] = set()
        loop = asyncio.get_running_loop()
        for signum, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, LAST_PATIENCE)):
            deadline = loop.time() + patience
            sent: set[int] = set()
            while (tree := self._tree(request, sparing=sparing)) and loop.time() < deadline:
                for process in tree:
                    told.add(process)
                    if process.pid not in sent:
                        sent.add(process.pid)
                        process.send(signum)
                await asyncio.sleep(POLL)
        if request is not None:
            request.signalled |= told
            told = request.signalled
        return sorted({process.pid for process in told if not process.is_there})

    async def end_all(self) -> None:
        """End everything below this process, and leave nothing to be waited for."""
        await self.end(None)
        with suppress(ChildProcessError):
            while processes.LINUX and (pid := processes.ended_child()) is not None:
                os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222

    # -- whose a process is -------------------------------------------------------------------------------

    def _tree(self, request: Request | None, *, sparing: bool = False) -> list[Process]:
        spared: set[int] = set()
        if sparing and request is not None:
            spared |= self.kept(request) if request.keeps is None else request.keeps
        if not processes.LINUX:
            return [process for process in self._noted(request) if process.pid not in spared]
        family = processes.family(os.getpid())
        owners = self._owners(family)
        for process in family:
            if process.parent in spared:
                spared.add(process.pid)
        mine = [p for p in family if p.alive and (request is None or owners[p.pid] is request)]
        return [process for process in mine if process.pid not in spared]

    def _noted(self, request: Request | None) -> list[Process]:
        broods = [b for b in list(self._broods.values()) if request is None or b.request is request]
        pids = [pid for brood in broods for pid in list(brood.pids)]
        return [Process(pid, os.getpid(), 0, "?", str(pid)) for pid in pids if processes.exists(pid)]

    def _owners(self, family: list[Process]) -> dict[int, Request | None]:
        owners: dict[int, Request | None] = {}
        for process in family:
            owner = self._owner(process)
            owners[process.pid] = owner if owner is not None else owners.get(process.parent)
        return owners

    def _owner(self, process: Process) -> Request | None:
        for brood in list(self._broods.values()):
            if brood.pids.get(process.pid) == process.started:
                return brood.request
        return self.find(process.variable(MARK)) if process.alive else None

    # -- what has ended -----------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Wait for orphans that have ended. One that C code in this process has started looks the same, so it
        gets until the next look to ask for its end itself.
        """  # noqa: D205
        if not processes.LINUX or processes.ended_child() is None:
            self._ended_before = set()
            return
        me = os.getpid()
        ended = [p for p in processes.family(me) if p.parent == me and not p.alive]
        orphans = {process.pid for process in ended if not self._is_noted(process)}
        for pid in orphans & self._ended_before:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._ended_before = orphans - self._ended_before

    def _is_noted(self, process: Process) -> bool:
        return any(
            process.pid in pids and pids[process.pid] in (process.started, None) for pids in self._all_pids()
        )

    def _all_pids(self) -> list[dict[int, int | None]]:
        return [self._nobodys, *(brood.pids for brood in list(self._broods.values()))]

    def _forget(self) -> None:
        """Forget what is gone: children that were waited for, and ended requests without any."""
        for pids in self._all_pids():
            for pid, started in list(pids.items()):
                seen = processes.look(pid)
                if not processes.exists(pid) or (seen is not None and seen.started != started):
                    pids.pop(pid, None)
        over = [brood for brood in list(self._broods.values()) if brood.is_over]
        # An orphan may be left that only its mark tells of.
        owners = self._owners(processes.family(os.getpid())).values() if over else ()
        with self._lock:
            for brood in over:
                if brood.is_over and brood.request not in owners:
                    del self._broods[brood.request.msg_id]

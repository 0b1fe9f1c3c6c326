"""What a host says of the namespace: here I am, this is what it begins with, and what is in it?

Comes in: `OPEN`, `SEED` and `VARIABLES` on the control channel. Goes out: the bridge to that host, its tools and `self`
in the namespace, values bound to names; what the names hold.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import ipykernel

from codeact_kernel.inkernel import walls, wire
from codeact_kernel.inkernel.agentself import AgentSelf
from codeact_kernel.inkernel.bridge import Bridge
from codeact_kernel.inkernel.delivery import Owner
from codeact_kernel.inkernel.family import Family
from codeact_kernel.inkernel.namespace import seed
from codeact_kernel.inkernel.tools import install_tools
from codeact_kernel.inkernel.variables import variables


class HostWatch(threading.Thread):
    """Hears that a host is gone which the kernel outlives.

    Args:
        pipe: Where its number is told then.
        lose: Called with the number, in this thread.
    """

    def __init__(self, pipe: str, lose: Callable[[int], None]) -> None:
        super().__init__(name="host watch", daemon=True)
        self._pipe = pipe
        self._lose = lose

    def run(self) -> None:
        """Wait for the end of one host after the other."""
        with suppress(OSError, ValueError):
            while True:
                with open(self._pipe) as told:
                    for line in told:
                        self._lose(int(line))


class Hosting:
    """Takes a host.

    Args:
        shell: IPython's shell.
        bridge: What is opened to it.
        owner: Told of its identity, to which what is confirmed is due.
        known: Tells of the requests that blocks may still put something out for.
        family: What the kernel has to do with those of other agents.
        make_self: Makes what blocks know as `self`.
        processes: Tells of the processes that blocks have started.
        reply: Sends a reply on the control channel: (type, content, parent, identity).
        beside: Runs something beside other control messages.
    """

    def __init__(
        self,
        shell: Any,
        bridge: Bridge,
        owner: Owner,
        known: Callable[[], dict[str, dict[str, Any]]],
        family: Family,
        make_self: Callable[[], AgentSelf],
        processes: Callable[[], list[dict[str, Any]]],
        reply: Callable[[str, dict[str, Any], Any, Any], None],
        beside: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._shell = shell
        self._bridge = bridge
        self._owner = owner
        self._known = known
        self._host: int | None = None
        """Which of the kernel's hosts is there."""
        self._family = family
        self._make_self = make_self
        self._processes = processes
        self._reply = reply
        self._beside = beside

    @property
    def handlers(self) -> dict[str, Callable[[Any, Any, dict[str, Any]], Coroutine[Any, Any, None]]]:
        """What takes which control message."""
        return {wire.OPEN: self._open, wire.SEED: self._seed, wire.VARIABLES: self._variables}

    def lose(self, host: int) -> None:
        """Take that a host is gone, though the kernel lives on. In the control thread.

        Args:
            host: Which one; the next one may have come already.
        """
        if host == self._host:
            self._host = None
            self._owner.leave()
            self._bridge.lose()

    async def _open(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Open the bridge to the host that asks, go to its folder, and bind its tools; a later host finds them."""
        asked = parent["content"]
        if not asked.get("again"):
            try:
                self._go_to(asked.get("cwd"))
                if asked.get("seal"):
                    # Now that it has the sockets that it needs.
                    walls.seal()
            except (OSError, walls.CannotConfine) as error:
                self._reply(wire.OPEN_REPLY, {"status": "error", "error": str(error)}, parent, ident)
                return
        self._host = asked.get("host")
        self._bridge.open(ident)
        self._owner.come(ident)
        if not asked.get("again"):
            self._family.join(asked)
            install_tools(self._shell, self._bridge, asked, self._make_self())
        content = {
            "requests": self._known() if asked.get("again") else {},
            "status": "ok",
            "protocol": wire.PROTOCOL,
            "python": sys.version.split()[0],
            "ipykernel": ipykernel.__version__,
            "pid": os.getpid(),
        }
        self._reply(wire.OPEN_REPLY, content, parent, ident)

    def _go_to(self, folder: str | None) -> None:
        """Be as a kernel that was started in a folder: one that was ready before was not."""
        if folder is not None:
            os.chdir(folder)
            self._shell.starting_dir = folder
            self._shell.user_ns["_dh"][:] = [Path(folder)]

    async def _seed(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Bind values that the host or another kernel has packed; beside other messages, since that runs their code."""
        wanted, buffers = parent["content"], parent["buffers"]

        async def bind() -> None:
            if wanted.get("parcel"):
                failed = await asyncio.to_thread(self._family.receive, wanted["parcel"])
            else:
                values = dict(zip(wanted["names"], map(bytes, buffers), strict=True))
                failed = await asyncio.to_thread(seed, self._shell, values, wanted["cloudpickle"])
            self._reply(wire.SEED_REPLY, {"status": "ok", "failed": failed}, parent, ident)

        self._beside(bind())

    async def _variables(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Tell what the names hold, and which processes live; beside other messages, since there may be many."""

        async def tell() -> None:
            told = await asyncio.to_thread(variables, self._shell)
            processes = await asyncio.to_thread(self._processes)
            content = {"status": "ok", "variables": told, "processes": processes}
            self._reply(wire.VARIABLES_REPLY, content, parent, ident)

        self._beside(tell())

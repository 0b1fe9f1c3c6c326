"""An agent's place among others: what all agents of one root share, and who its parent is.

Comes in: limits. Goes out: `Tree`, one for a root and all below it, and `Kin`, one for each agent.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from codeact_kernel.allowance import Allowance
from codeact_kernel.kernels import KernelSource, Launch, Sandbox, Workshop, make_folder, remove_folder
from codeact_kernel.masking import Mask
from codeact_kernel.policy import Audit, Budget, Gate
from codeact_kernel.runfiles import Folder
from codeact_kernel.tools import CallCount

if TYPE_CHECKING:
    from codeact_kernel.agent.delegation import Delegation

ROOT = "the agent"
"""What the root is called where an agent of its tree has to be named."""


_PLAIN = Allowance()


class NoPlace(Exception):
    """No further sub-agent can be started; the text is for the model."""


class Tree:
    """What a root agent and all below it share. An `async with` of its root's: leaving removes the folder.

    Args:
        max_agents: Sub-agents that are alive at once, in all.
        max_depth: Levels of sub-agents below the root.
        source: Where their kernels come from.
        launch: How those are started.
        sandbox: What each of them is walled in by; None for nothing.
        gate: Decides what their blocks may do.
        mask: Knows the secrets that none of them tells.
        audit: What all of them do.
    """

    def __init__(
        self,
        max_agents: int,
        max_depth: int,
        source: KernelSource,
        launch: Launch,
        sandbox: Sandbox | None,
        gate: Gate,
        mask: Mask,
        audit: Audit,
    ) -> None:
        self.budget = Budget()
        """Of the root's run that goes on; each has one of its own."""
        self.gate = gate
        self.mask = mask
        self.audit = audit
        self.max_depth = max_depth
        self.source = source
        self.launch = launch
        self.sandbox = sandbox
        self.workshop = Workshop(sandbox)
        """Where programs run that tools start for blocks."""
        self.max_agents = max_agents
        self.alive = 0
        """Sub-agents that are alive."""
        self._numbers = itertools.count(1)
        self._folder: Path | None = None
        self._promised: set[tuple[int, int]] = set()
        """Parcels that were not collected yet: their numbers, and their makers'."""
        self.starting = asyncio.Semaphore(os.cpu_count() or 2)
        """Held by who starts a kernel: more at once than there are cores make all of them late."""
        self.calls = CallCount()
        """What its agents have called."""
        self.homes: dict[int, Delegation] = {}
        """Whose objects others may use by proxy: by the agent's number."""

    def number(self) -> int:
        """A number that no other agent of the tree has."""
        return next(self._numbers)

    @contextmanager
    def place(self, depth: int) -> Iterator[None]:
        """A sub-agent's place, as long as it lives.

        Args:
            depth: Its level below the root, from 1.

        Raises:
            NoPlace: If there is none.
        """
        if depth > self.max_depth:
            raise NoPlace(
                f"sub-agents go {self.max_depth} level{'s' * (self.max_depth != 1)} deep here, and this would be one "
                "more: do that work in blocks of your own"
            )
        if self.alive >= self.max_agents:
            raise NoPlace(
                f"{self.alive} sub-agents are alive, and no more may be: wait until some have ended, or start fewer "
                "at once (an asyncio.Semaphore round self.run_agent)"
            )
        self.alive += 1
        try:
            yield
        finally:
            self.alive -= 1

    def parcel(self, maker: Kin) -> str:
        """A path for values on their way from one kernel to another, where only the host can reach them.

        Args:
            maker: Whose kernel will write it.
        """
        if self._folder is None:
            self._folder = make_folder("ck-parcels-")
        folder = self._folder / str(maker.number)
        folder.mkdir(0o700, exist_ok=True)
        number = next(self._numbers)
        self._promised.add((number, maker.number))
        return str(folder / str(number))

    def parcel_named(self, name: str, maker: Kin) -> str:
        """The path of a parcel that was promised to an agent, by its name.

        Args:
            name: Its name: a number.
            maker: Whose kernel has written it.

        Raises:
            ValueError: If there was no such parcel.
        """
        if (int(name), maker.number) not in self._promised:
            raise ValueError(f"no parcel {name} was promised to {maker.name}")
        self._promised.discard((int(name), maker.number))
        assert self._folder is not None
        return str(self._folder / str(maker.number) / name)

    def close(self) -> None:
        """Remove the folder, and end what programs of tools have left."""
        self.workshop.close()
        if self._folder is not None:
            remove_folder(self._folder)
            self._folder = None


@dataclass(frozen=True)
class Kin:
    """One agent's place."""

    tree: Tree
    number: int
    """Its own in the tree."""
    path: tuple[str, ...] = ()
    """The names from the root's sub-agent down to its own."""
    parcel: str | None = None
    """What its namespace begins with."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What that is, by name, in words."""
    ask: Callable[[str], Awaitable[str]] | None = None
    """Asks its parent; None for a root."""
    hand_back: Callable[[str], None] | None = None
    """Takes the parcel that its parent shall get, or a root's caller; None where nobody takes one."""
    lacks: tuple[str, ...] = ()
    """What a root may not do and its caller may, in words; with some of it, what is handed back is data."""
    record: Folder | None = None
    """The folder of its parent's record, open; None for a root, and where no record is kept."""
    allowance: Allowance = _PLAIN
    """What the code in its kernel may do."""
    parent: Kin | None = None
    """None for a root."""

    @property
    def name(self) -> str:
        """What it is called."""
        return ".".join(self.path) or ROOT

    @property
    def depth(self) -> int:
        """How many levels below the root it is."""
        return len(self.path)

    @property
    def may_delegate(self) -> bool:
        """Whether it can have sub-agents of its own."""
        return self.depth < self.tree.max_depth

"""What a sub-agent's namespace begins with, and what it hands back: packed and taken by its parent's kernel.

Comes in: names of the parent's namespace. Goes out: a parcel for the sub-agent's kernel. And the other way round: a
parcel comes in, and a name of the parent's namespace goes out.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codeact_kernel.agent.kin import Tree
from codeact_kernel.blocks import AgentBlock, CodeBlock, Job, Outcome
from codeact_kernel.errors import KernelError
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels import KernelRunner


@dataclass
class Seeds:
    """What a sub-agent's namespace begins with."""

    parcel: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    tools: list[str] = field(default_factory=list)

    def remove(self) -> None:
        """Remove the parcel, once no kernel can need it any more."""
        for file in () if self.parcel is None else (self.parcel, self.parcel + wire.PARCEL_NOTE):
            Path(file).unlink(missing_ok=True)


class CannotSeed(Exception):
    """A sub-agent cannot get what it shall; the text is for the model."""


class Parcels:
    """Packs for the sub-agents of one agent, and unpacks.

    Args:
        tree: Where parcels lie.
        runner: The agent's kernel.
    """

    def __init__(self, tree: Tree, runner: KernelRunner) -> None:
        self._tree = tree
        self._runner = runner

    async def pack(self, job: Job, block: AgentBlock) -> Seeds:
        """Pack what a block names, when that is there.

        Args:
            job: The block's job.
            block: The block.

        Raises:
            CannotSeed: If something of it cannot be passed.
        """
        if not block.namespace:
            return Seeds()
        bad = [name for name in block.namespace if not name.isidentifier()]
        if bad:
            raise CannotSeed(f"namespace: {', '.join(bad)}: names only, separated by commas")
        file = self._tree.parcel()
        given = ", ".join(f"{name}={name}" for name in dict.fromkeys(block.namespace))
        # As code of the same reply, so that it waits for the blocks that make these names, and is skipped with them.
        code = f"get_ipython().kernel.family.pack({file!r}, {given})"
        packing = Job(f"{job.id} namespace", CodeBlock(code, after=None), job.reply)
        outcome = await self._runner.aside(packing)
        if outcome.status != "ok":
            raise CannotSeed(f"namespace: {_last_line(outcome.error)}")
        note = await asyncio.to_thread(_read_note, file)
        if "error" in note:
            raise CannotSeed("it was not started, because this cannot be passed:\n" + note["error"])
        return Seeds(file, note["names"], note["tools"])

    async def take(self, job: Job, file: str) -> str:
        """Bind what a sub-agent has handed back.

        Args:
            job: The sub-agent's job.
            file: The parcel.

        Returns:
            What there is to say of it.
        """
        name = job.name
        code = f"get_ipython().kernel.family.take({name!r}, {file!r})"
        try:
            outcome = await self._runner.aside(Job(f"{job.id} result", CodeBlock(code, after=()), job.reply))
        except KernelError as error:
            outcome = Outcome("died", error=error.message)
        if outcome.status != "ok":
            return f"what it handed back cannot be read here: {_last_line(outcome.error)}"
        note = await asyncio.to_thread(_read_note, file)
        where = name if note["bound"] else f"self.result({json.dumps(name, ensure_ascii=False)})"
        return f"it handed back a {note['what']}: {where}"


def _read_note(file: str) -> dict[str, Any]:
    note: dict[str, Any] = json.loads(Path(file + wire.PARCEL_NOTE).read_text("utf-8"))
    return note


def _last_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return lines[-1] if lines else "it failed"

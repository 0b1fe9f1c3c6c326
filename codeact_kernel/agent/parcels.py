"""What a sub-agent's namespace begins with, and what it hands back: packed and taken by its parent's kernel.

Comes in: names of the parent's namespace. Goes out: a parcel for the sub-agent's kernel. And the other way round: a
parcel comes in, and a name of the parent's namespace goes out.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codeact_kernel.agent.kin import Kin
from codeact_kernel.blocks import AgentBlock, CodeBlock, Job, Outcome
from codeact_kernel.errors import KernelError
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels import KernelRunner

MOST = 2**20
"""Bytes of a note that are read. Ours: a name and a few words for each of thousands of values."""
_WORDS = 300
"""Characters of what a value is, in words."""


@dataclass
class Seeds:
    """What a sub-agent's namespace begins with."""

    parcel: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    tools: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, parcel: str, note: Any) -> Seeds:
        """Read what a kernel says of a parcel.

        Args:
            parcel: The parcel.
            note: What it says.

        Raises:
            ValueError: If that is no such note.
        """
        names, tools = (note.get("names"), note.get("tools")) if isinstance(note, dict) else (None, None)
        if not isinstance(names, dict) or not isinstance(tools, list):
            raise ValueError("it has no names and tools")
        told = {str(name): str(what)[:_WORDS] for name, what in names.items() if str(name).isidentifier()}
        return cls(parcel, told, [tool for tool in tools if isinstance(tool, str)])

    def remove(self) -> None:
        """Remove the parcel, once no kernel can need it any more."""
        for file in () if self.parcel is None else (self.parcel, self.parcel + wire.PARCEL_NOTE):
            Path(file).unlink(missing_ok=True)


class CannotSeed(Exception):
    """A sub-agent cannot get what it shall; the text is for the model."""


class Parcels:
    """Packs for the sub-agents of one agent, and unpacks.

    Args:
        kin: The agent's place.
        runner: The agent's kernel.
    """

    def __init__(self, kin: Kin, runner: KernelRunner) -> None:
        self._kin = kin
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
        file = self._kin.tree.parcel(self._kin)
        mail = self._runner.kernel.mail
        place = mail.place(file)
        given = ", ".join(f"{name}={name}" for name in dict.fromkeys(block.namespace))
        # As code of the same reply, so that it waits for the blocks that make these names, and is skipped with them.
        code = f"get_ipython().kernel.family.pack({place!r}, {given})"
        packing = Job(f"{job.id} namespace", CodeBlock(code, after=None), job.reply)
        outcome = await self._runner.aside(packing)
        if outcome.status != "ok":
            raise CannotSeed(f"namespace: {_last_line(outcome.error)}")
        try:
            note = await asyncio.to_thread(read_note, place)
            if "error" in note:
                raise CannotSeed(f"it was not started, because this cannot be passed:\n{note['error']}")
            mail.collect(file)
            return Seeds.of(file, note)
        except (OSError, ValueError) as error:
            raise CannotSeed(f"namespace: what was packed cannot be read: {error}") from None

    async def take(self, job: Job, file: str, *, data: bool) -> str:
        """Bind what a sub-agent has handed back.

        Args:
            job: The sub-agent's job.
            file: The parcel.
            data: Whether it is taken as data only, since the sub-agent may do less than its parent.

        Returns:
            What there is to say of it.
        """
        name = job.name
        mail = self._runner.kernel.mail
        beside = mail.place(self._kin.tree.parcel(self._kin))
        try:
            code = (
                f"get_ipython().kernel.family.take({name!r}, {mail.put(file)!r}, {beside!r}, data={data!r})"
            )
            outcome = await self._runner.aside(Job(f"{job.id} result", CodeBlock(code, after=()), job.reply))
        except OSError as error:
            return f"what it handed back cannot be read here: {error}"
        except KernelError as error:
            outcome = Outcome("died", error=error.message)
        if outcome.status != "ok":
            return f"what it handed back cannot be read here: {_last_line(outcome.error)}"
        try:
            note = await asyncio.to_thread(read_note, beside)
        except (OSError, ValueError) as error:
            return f"what it handed back cannot be read here: {error}"
        where = name if note.get("bound") else f"self.result({json.dumps(name, ensure_ascii=False)})"
        what = " ".join(str(note.get("what")).split())[:_WORDS]
        return f"it handed back a {what}{', as data' * data}: {where}"


def read_note(file: str) -> dict[str, Any]:
    """Read what a kernel says of a parcel. Whatever lies there, no more than a note is read.

    Args:
        file: The parcel.

    Raises:
        OSError: If it cannot be opened, or is a symlink.
        ValueError: If it is no note.
    """
    fd = os.open(file + wire.PARCEL_NOTE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST:
            raise ValueError("the note about it is no file, or too long")
        note = json.loads(os.read(fd, MOST))
    except RecursionError:
        note = None
    finally:
        os.close(fd)
    if not isinstance(note, dict):
        raise ValueError("the note about it says nothing")
    return note


def _last_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return lines[-1] if lines else "it failed"

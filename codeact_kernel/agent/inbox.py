"""The one place where the loop waits.

Comes in: ends of blocks, heartbeats, notes, from whoever has them. Goes out: all that has come, as one batch.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from codeact_kernel.blocks import BlockResult
from codeact_kernel.events import Heartbeat, Report

SETTLE = 0.03
"""Seconds that are waited for more once something has come: what ends together is told together."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note for the model."""

    sender: str
    text: str


Item = BlockResult | Heartbeat | Note | Report


class Inbox:
    """Holds what the model has not been told yet."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._later: list[Note] = []
        self._came = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()

    def put(self, item: Item) -> None:
        """Add something that the model shall read next; it ends the wait.

        Args:
            item: What has happened.
        """
        self._items.append(item)
        self._came.set()

    def follow_up(self, note: Note) -> None:
        """Add a note that is read only when the run would stop.

        Args:
            note: The note.
        """
        self._later.append(note)

    def turn_up_follow_ups(self) -> bool:
        """Let the follow-ups be read now.

        Returns:
            Whether there were any.
        """
        notes, self._later = self._later, []
        for note in notes:
            self.put(note)
        return bool(notes)

    async def wait(self) -> None:
        """Wait until something has come that may be read, and a moment longer."""
        await self._came.wait()
        await self.free()
        await asyncio.sleep(SETTLE)

    def hold(self) -> None:
        """Let nothing be read until `release`."""
        self._free.clear()

    def release(self) -> None:
        """Let what has come be read again."""
        self._free.set()

    async def free(self) -> None:
        """Wait while it is held."""
        await self._free.wait()

    def take(self) -> list[Item]:
        """Take everything that has come, oldest first."""
        items, self._items = self._items, []
        self._came.clear()
        return items

    def __bool__(self) -> bool:
        return bool(self._items)

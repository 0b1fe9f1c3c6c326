"""The one place where the loop waits.

Comes in: ends of blocks, heartbeats, notes, from whoever has them. Goes out: all that has come, as one batch.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from codeact_kernel.blocks import BlockResult, StreamOutput
from codeact_kernel.events import BlockHeld, Heartbeat, Report

SETTLE = 0.03
"""Seconds that are waited for more once something has come: what ends together is told together."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note for the model."""

    sender: str
    text: str


Item = BlockResult | BlockHeld | Heartbeat | Note | Report


class Inbox:
    """Holds what the model has not been told yet."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._later: list[Note] = []
        self._aside: list[Report] = []
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

    def put_aside(self, report: Report) -> None:
        """Add something that the model shall read together with what comes next; it ends no wait.

        Args:
            report: What it shall know.
        """
        self._aside.append(report)

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
        """Take everything that has come, oldest first: of each block its result, or else one heartbeat."""
        items, self._aside = [*self.drop(), *self._aside], []
        return _once(items)

    def drop(self) -> list[Item]:
        """Take what has come, but leave what lies aside for the next time."""
        items, self._items = self._items, []
        self._came.clear()
        return items

    def __bool__(self) -> bool:
        return bool(self._items)


def _once(items: list[Item]) -> list[Item]:
    """Leave out heartbeats of blocks that have ended meanwhile, and join those of one block."""
    ended = {item.id for item in items if isinstance(item, BlockResult)}
    places: dict[str, int] = {}
    kept: list[Item] = []
    for item in items:
        if isinstance(item, Heartbeat):
            if item.id in ended:
                continue
            at = places.setdefault(item.id, len(kept))
            if at < len(kept):
                kept[at] = _joined(kept[at], item)
                continue
        kept.append(item)
    return kept


def _joined(first: Item, second: Heartbeat) -> Heartbeat:
    assert isinstance(first, Heartbeat)
    more = (*first.more, StreamOutput("stdout", second.text), *second.more)
    return replace(second, text=first.text, more=more)

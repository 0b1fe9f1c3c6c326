"""What of a notebook changes no more, as the text that its file holds: on the disk, so that it takes no memory.

Comes in: items of a notebook's lists, each once, with their places. Goes out: their text and their digests, in pieces
between which what still changes can stand.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from codeact_kernel.record.cells import Place, Placed
from codeact_kernel.record.layout import in_lines, laid_out
from codeact_kernel.record.notebook import LISTS, Lists
from codeact_kernel.runfiles import write_all

_PIECE = 2**20
"""Bytes that are read together."""
_CELL_DEPTH, _DEPTH = 2, 4
"""Columns by which a cell, and an item of the other lists, is indented."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Items that follow each other."""

    first: Place
    digests: bytes
    """32 of each item."""
    text: str | tuple[int, int]
    """As in the file, without what stands round it; or where that lies: the first byte, and how many."""


class Older:
    """Keeps what is settled.

    Args:
        fd: An empty file, for reading and appending; closed with it.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._segments: dict[str, list[Segment]] = {name: [] for name in LISTS}

    def add(self, lists: Lists, live: Lists) -> None:
        """Take what is settled now.

        Args:
            lists: The items.
            live: What still changes; it will stand where its places are.

        Raises:
            OSError: If it cannot be written: nothing is taken then.
        """
        made = {
            name: list(_segments(name, lists[name], [*live[name], *self._segments[name]])) for name in LISTS
        }
        at = began = os.lseek(self._fd, 0, os.SEEK_END)
        taken: dict[str, list[Segment]] = {}
        for name, segments in made.items():
            taken[name] = []
            for segment in segments:
                data = str(segment.text).encode()
                try:
                    write_all(self._fd, data)
                except OSError:
                    os.ftruncate(self._fd, began)
                    raise
                taken[name].append(Segment(segment.first, segment.digests, (at, len(data))))
                at += len(data)
        for name, segments in taken.items():
            self._segments[name] = sorted(
                (*self._segments[name], *segments), key=lambda segment: segment.first
            )

    def merged(self, name: str, live: Sequence[Placed]) -> list[Segment]:
        """All of a list, in order.

        Args:
            name: Which list.
            live: What of it still changes.
        """
        segments = [segment for placed in live for segment in _segments(name, [placed], ())]
        return sorted((*self._segments[name], *segments), key=lambda segment: segment.first)

    def read(self, segment: Segment) -> Iterator[bytes]:
        """The text of a segment.

        Raises:
            OSError: If it cannot be read.
        """
        if isinstance(segment.text, str):
            yield segment.text.encode()
            return
        at, count = segment.text
        while count:
            piece = os.pread(self._fd, min(count, _PIECE), at)
            if not piece:
                raise OSError("what was written of the record before is gone")
            yield piece
            at, count = at + len(piece), count - len(piece)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


def digest(item: Any) -> bytes:
    """What stands for an item in the signature of its notebook."""
    return sha256(json.dumps(item, sort_keys=True).encode()).digest()


def _segments(name: str, placed: Sequence[Placed], others: Sequence[Placed | Segment]) -> Iterator[Segment]:
    """The items as segments, between which there is room for all others."""
    places = sorted(other.first if isinstance(other, Segment) else other[0] for other in others)
    groups: dict[int, list[Placed]] = {}
    for item in placed:
        groups.setdefault(bisect_right(places, item[0]), []).append(item)
    for group in groups.values():
        items = [item for _, of_place in group for item in of_place]
        if items:
            yield Segment(group[0][0], b"".join(map(digest, items)), _text(name, items))


def _text(name: str, items: list[Any]) -> str:
    depth, shown = (_CELL_DEPTH, map(in_lines, items)) if name == "cells" else (_DEPTH, iter(items))
    return ",\n".join(laid_out(item, depth, " " * depth) for item in shown)

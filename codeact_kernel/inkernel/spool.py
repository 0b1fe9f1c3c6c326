"""The outputs of one request that its owner has not confirmed yet.

Comes in: numbered outputs, as the JSON of their content. Goes out: the same again, by number, until they are
dropped. The first of them lie in memory, what does not fit there in a file without a name, so that nothing is
left behind whatever becomes of this process; and together they have a limit.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import IO

MEMORY = 16 * 2**20
"""Bytes of a request's outputs that lie in memory; twice the window, so that a file is only for readers that
have stopped."""
LIMIT = 256 * 2**20
"""Bytes of a request's outputs in its file; ours, so that a block that prints for ever does not fill the disk."""
OVERHEAD = 500
"""Bytes that a message takes besides its content: header, parent, signature."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output on its way: what it is, what it is published under, and its content as JSON."""

    kind: str
    topic: bytes
    content: bytes

    @property
    def size(self) -> int:
        """How many bytes it takes on its way."""
        return len(self.content) + OVERHEAD


@dataclass(frozen=True, slots=True)
class _Filed:
    """An output in the file."""

    kind: str
    topic: bytes
    at: int
    length: int

    @property
    def size(self) -> int:
        return self.length + OVERHEAD


class Spool:
    """Keeps outputs from `first` up to, not including, `next`. Not for two threads at once.

    Args:
        folder: Where its file lies, if it needs one; None for the system's own place.
        memory: Bytes that may lie in memory.
        limit: Bytes that its file may have.
    """

    def __init__(self, folder: str | None = None, memory: int = MEMORY, limit: int = LIMIT) -> None:
        self._folder = folder
        self._memory = memory
        self._limit = limit
        self._kept: dict[int, Output | _Filed] = {}
        self._file: IO[bytes] | None = None
        self._end = 0
        self._in_memory = 0
        self._in_file = 0
        """How many outputs the file holds."""
        self.first = 0
        self.next = 0

    def put(self, output: Output, *, small: bool = False) -> bool:
        """Keep an output under the next number.

        Args:
            output: The output.
            small: Whether it is kept even where there is no room.

        Returns:
            Whether it was kept: not where the limit is reached or the disk is full.
        """
        if small or self._in_memory + output.size <= self._memory or not self._kept:
            self._kept[self.next] = output
            self._in_memory += output.size
        else:
            filed = self._write(output)
            if filed is None:
                return False
            self._kept[self.next] = filed
            self._in_file += 1
        self.next += 1
        return True

    def fits(self, output: Output) -> bool:
        """Whether there is room for an output."""
        in_memory = self._in_memory + output.size <= self._memory or not self._kept
        return in_memory or self._end + len(output.content) <= self._limit

    def get(self, number: int) -> Output:
        """Give an output; it stays.

        Args:
            number: From `first` up to, not including, `next`.
        """
        kept = self._kept[number]
        if isinstance(kept, Output):
            return kept
        assert self._file is not None
        self._file.seek(kept.at)
        return Output(kept.kind, kept.topic, self._file.read(kept.length))

    def drop(self, number: int) -> list[int]:
        """Let go of all outputs before a number.

        Args:
            number: The first that is kept.

        Returns:
            The sizes of those that went, oldest first.
        """
        sizes = []
        while self.first < min(number, self.next):
            kept = self._kept.pop(self.first)
            sizes.append(kept.size)
            self.first += 1
            if isinstance(kept, Output):
                self._in_memory -= kept.size
            else:
                self._in_file -= 1
        if self._file is not None and not self._in_file:
            self.close()
        return sizes

    def close(self) -> None:
        """Give the file's room back; what it holds is gone."""
        if self._file is not None:
            self._file.close()
        self._file, self._end = None, 0

    def _write(self, output: Output) -> _Filed | None:
        length = len(output.content)
        if self._end + length > self._limit:
            return None
        try:
            if self._file is None:
                folder = self._folder if self._folder and os.path.isdir(self._folder) else None  # noqa: PTH112
                self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
            self._file.seek(self._end)
            rest = memoryview(output.content)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            return None
        filed = _Filed(output.kind, output.topic, self._end, length)
        self._end += length
        return filed

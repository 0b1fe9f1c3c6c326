"""A text that only grows, of any length.

Comes in: pieces of text. Goes out: any part of it, by characters, and where a line begins. A short text lies in
memory; once it is long all but its end lies in a file, as plain UTF-8 that any editor opens.
"""

from __future__ import annotations

import codecs
import errno
import re
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from codeact_kernel.runfiles import SpilledFile

IN_MEMORY = 2**20
"""Characters up to which a text stays in memory."""
SECTION = 2**16
"""Characters that are read from the file together."""
PAGE = 1_000_000
"""Characters of one page."""
_HALVES = re.compile("[\ud800-\udfff]")


class Tape:
    """Keeps a text.

    Args:
        place: Makes the file in which it goes on once it is long; may raise an `OSError`.
    """

    def __init__(self, place: Callable[[], SpilledFile]) -> None:
        self._place = place
        self._file: SpilledFile | None = None
        self.error: OSError | None = None
        """Why the rest could not be written, if it could not."""
        self.lost = 0
        """Characters that are gone because of it."""
        self.is_written_at_once = False
        """Whether nothing of a long text waits in memory: another process may have to go on with it."""
        self._starts = [0]
        """The first character of each section, and of what is not written yet."""
        self._bytes = [0]
        self._lines = [0]
        self._recent: list[str] = []
        self.length = 0
        """Characters."""
        self.lines = 0
        """Line ends."""

    @property
    def path(self) -> Path | None:
        """The file, where there is one."""
        return None if self._file is None else self._file.path

    def append(self, text: str) -> None:
        """Add to the end.

        Args:
            text: The piece. Halves of surrogate pairs, which no file holds, become replacement marks.
        """
        if self.error is not None:
            self.lost += len(text)
            return
        self._recent.append(text)
        self.length += len(text)
        self.lines += text.count("\n")
        section = 1 if self.is_written_at_once else SECTION
        if self.length - self._starts[-1] >= (IN_MEMORY if self._file is None else section):
            self.write()

    def go_on(self, file: SpilledFile, length: int) -> None:
        """Begin with what an earlier process has written.

        Args:
            file: Its file.
            length: The characters of it that count; what is behind them goes.

        Raises:
            OSError: If there are fewer, or it cannot be read.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        starts, sizes, lines, at = [0], [0], [0], 0
        while starts[-1] < length and (piece := file.read(at, SECTION)):
            at += len(piece)
            text = decoder.decode(piece)[: length - starts[-1]]
            starts.append(starts[-1] + len(text))
            sizes.append(sizes[-1] + len(encoded(text)))
            lines.append(lines[-1] + text.count("\n"))
        if starts[-1] < length:
            raise OSError(errno.EIO, f"{file.path} holds less than it should")
        file.shorten(sizes[-1])
        self._file, self._starts, self._bytes, self._lines = file, starts, sizes, lines
        self.length, self.lines = starts[-1], lines[-1]

    def read(self, start: int = 0, stop: int | None = None) -> str:
        """Read a part.

        Args:
            start: Its first character.
            stop: The first character after it; None for all there is.

        Raises:
            OSError: If somebody has taken the file away, or put another in its place.
        """
        stop = self.length if stop is None else min(stop, self.length)
        pieces = []
        at = max(0, start)
        while at < stop:
            section = bisect_right(self._starts, at) - 1
            first, text = self._starts[section], self._section(section)
            pieces.append(text[at - first : stop - first])
            at = first + len(text)
        return "".join(pieces)

    def line(self, number: int) -> int:
        """Where a line begins.

        Args:
            number: The line, counted from 0.

        Returns:
            Its first character; the end of the text where it has no such line.
        """
        if number <= 0:
            return 0
        if number > self.lines:
            return self.length
        section = bisect_right(self._lines, number - 1) - 1
        at, text = -1, self._section(section)
        for _ in range(number - self._lines[section]):
            at = text.index("\n", at + 1)
        return self._starts[section] + at + 1

    def page(self, start: int = 0, stop: int | None = None, *, lines: bool = False) -> dict[str, Any]:
        """Read a part, for a reader that wants no more at a time than it can hold.

        Args:
            start: The first character.
            stop: The first character after it; None for the end.
            lines: Whether start and stop count lines instead.

        Returns:
            "text": the part, or a beginning of it of at most a million characters; "start" and "stop": the whole
            part in characters; "length" and "lines": characters and line ends of all there is.

        Raises:
            OSError: As in `read`.
        """
        first, last = (
            (self.line(start), None if stop is None else self.line(stop)) if lines else (start, stop)
        )
        end = self.length if last is None else min(last, self.length)
        text = self.read(first, min(end, first + PAGE))
        return {"text": text, "start": first, "stop": end, "length": self.length, "lines": self.lines}

    def write(self) -> None:
        """Write to the file what is only in memory. Where that fails it stays there, and what follows is lost."""
        text = "".join(self._recent)
        sections = [text[at : at + SECTION] for at in range(0, len(text), SECTION)]
        pieces = [encoded(section) for section in sections]
        try:
            self._file = self._file or self._place()
            self._file.append(pieces)
        except OSError as error:
            self.error = error
            if self._file is not None:
                with suppress(OSError):
                    self._file.shorten(self._bytes[-1])
            if not self._bytes[-1]:
                self._file = None
            return
        for section, written in zip(sections, pieces, strict=True):
            self._starts.append(self._starts[-1] + len(section))
            self._bytes.append(self._bytes[-1] + len(written))
            self._lines.append(self._lines[-1] + section.count("\n"))
        self._recent = []

    def _section(self, number: int) -> str:
        if number == len(self._starts) - 1:
            if len(self._recent) > 1:
                self._recent = ["".join(self._recent)]
            return self._recent[0] if self._recent else ""
        assert self._file is not None
        begin, end = self._bytes[number], self._bytes[number + 1]
        return self._file.read(begin, end - begin).decode("utf-8", "replace")


def encoded(text: str) -> bytes:
    """A text as a file holds it: halves of surrogate pairs become replacement marks."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _HALVES.sub("\ufffd", text).encode()

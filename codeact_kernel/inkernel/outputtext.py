"""The output of a block as a text that is fetched only as far as it is read.

Comes in: a function that gives pages of it. Goes out: `OutputText`, which behaves like a `str` and costs nothing
until it is asked for something.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

SHORT = 200
"""Characters up to which a text is its own representation."""
HITS = 1000
"""Lines that a search gives at most, unless told."""

Page = Callable[[int, "int | None", bool], dict[str, Any]]
"""A part of the text, by characters or by lines: see `Supervisor.page` of the host."""


class OutputText:
    """All that a block has put out, up to the moment at which this was asked for.

    `out[a:b]` are characters, `out.lines(a, b)` lines, `out.search(pattern)` the lines that match; `len(out)`,
    `print(out)`, `text in out` and every method of `str` work too. `out.text` is the whole as a `str`.
    """

    def __init__(self, id: str, page: Page) -> None:  # noqa: A002
        first = page(0, SHORT, False)
        self._id = id
        self._page = page
        self._length: int = first["length"]
        self._ends: int = first["lines"]
        self._whole: str | None = first["text"] if self._length <= len(first["text"]) else None

    @property
    def text(self) -> str:
        """All of it, as a `str`."""
        if self._whole is None:
            self._whole = "".join(self._pages(0, self._length))
        return self._whole

    def lines(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Some of its lines.

        Args:
            start: The first line, counted from 0; below zero from the end.
            stop: The first line after them; None for the end.

        Returns:
            The lines, without their ends.
        """
        if not self._length:
            return []
        count = self._ends + (self[self._length - 1] != "\n")
        start, stop, _ = slice(start, stop).indices(count)
        found = self._page(start, max(start, stop), True)
        stop_at = min(found["stop"], self._length)
        head = found["text"][: stop_at - found["start"]]
        rest = self._pages(found["start"] + len(head), stop_at)
        return "".join([head, *rest]).split("\n")[: max(0, stop - start)]

    def search(self, pattern: str | re.Pattern[str], most: int | None = HITS) -> list[tuple[int, str]]:
        """Find the lines that match.

        Args:
            pattern: A regular expression, looked for anywhere in a line.
            most: How many lines are enough; None for all.

        Returns:
            The number of each line, counted from 0, and the line.
        """
        found = []
        for number, line in enumerate(self._each_line()):
            if re.search(pattern, line):
                found.append((number, line))
                if most is not None and len(found) >= most:
                    break
        return found

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, key: int | slice) -> str:
        if self._whole is not None:
            return self._whole[key]
        if not isinstance(key, slice):
            start = range(self._length)[key]
            return "".join(self._pages(start, start + 1))
        start, stop, step = key.indices(self._length)
        if step < 0:
            return self.text[key]
        return "".join(self._pages(start, stop))[::step]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        if self._whole is not None and self._length <= SHORT:
            return repr(self._whole)
        size = f"{self._ends:,} lines, {self._length:,} characters"
        return f"<output of {self._id}, {size}: print(it), it[a:b], it.lines(a, b), it.search(pattern)>"

    def __contains__(self, text: str) -> bool:
        return text in self.text

    def __iter__(self) -> Iterator[str]:
        return iter(self.text)

    def __eq__(self, other: object) -> bool:
        return self.text == (other.text if isinstance(other, OutputText) else other)

    def __hash__(self) -> int:
        return hash(self.text)

    def __add__(self, other: str) -> str:
        return self.text + str(other)

    def __radd__(self, other: str) -> str:
        return other + self.text

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(str, name):
            raise AttributeError(
                f"an output has no {name!r}; it has .text, .lines, .search and what a str has"
            )
        return getattr(self.text, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in dir(str) if not name.startswith("_"))]

    def _pages(self, start: int, stop: int) -> Iterator[str]:
        while start < stop:
            text = self._page(start, stop, False)["text"][: stop - start]
            if not text:
                return
            yield text
            start += len(text)

    def _each_line(self) -> Iterator[str]:
        rest = ""
        for page in [self._whole] if self._whole is not None else self._pages(0, self._length):
            *whole, rest = (rest + page).split("\n")
            yield from whole
        if rest:
            yield rest

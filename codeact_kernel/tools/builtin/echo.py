"""What a program prints, shown in the block that runs it, as it comes.

Comes in: the bytes of its streams, or lines. Goes out: lines, few enough at a time to be read, and a count of the
others. Nothing is lost by that: the tool's result holds what the program has printed.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable
from typing import Self

LINES = 20
"""Lines that are shown in a second. Ours: faster than anybody reads, and a hundredth of what a block can print."""
MOST = 2**16
"""Characters that are shown of one call. Ours: eight times as much as a model reads of one result."""
LONGEST = 2000
"""Characters that are shown of one line."""
PAUSE = 5.0
"""Seconds after which a line is shown that has not ended: a progress bar, a row of dots."""


class Echo:
    """Shows lines as they come, within bounds. A context: at its end it says what else there was.

    Args:
        say: Shows a text of one or more lines.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._streams: list[_Stream] = []
        self._second = -1
        self._lines = self._size = 0
        self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None

    def stream(self) -> Callable[[bytes], None]:
        """What takes the bytes of one stream, as they come; its lines are shown."""
        stream = _Stream()
        self._streams.append(stream)

        def take(data: bytes) -> None:
            self.lines(stream.take(data, self._loop.time()))
            if stream.rest:
                self._look_later()

        return take

    def lines(self, lines: list[str]) -> None:
        """Show lines, as far as the bounds allow it.

        Args:
            lines: Without their ends.
        """
        if not lines:
            return
        if (second := int(self._loop.time())) != self._second:
            self._second, self._lines = second, 0
        shown: list[str] = []
        for line in map(_cut, lines[: max(0, LINES - self._lines)]):
            self._size += len(line) + 1
            if self._size > MOST:
                break
            shown.append(line)
        self._lines += len(shown)
        if shown:
            self._say("\n".join([*self._gap(), *shown]))
        self._left_out += len(lines) - len(shown)
        if self._left_out and self._size <= MOST:
            self._look_later()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for stream in self._streams:
            self.lines(stream.close())
        for line in self._gap():
            self._say(line)

    def _gap(self) -> list[str]:
        """What is said where lines were left out."""
        count, self._left_out = self._left_out, 0
        return [f"[... {count} line{'s' * (count > 1)} not shown here]"] if count else []

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(PAUSE, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        for stream in self._streams:
            # Of a line that has begun just now the rest is on its way.
            if now - stream.begun >= PAUSE / 2:
                self.lines(stream.so_far())
            elif stream.rest:
                self._look_later()
        if self._size <= MOST:
            for line in self._gap():
                self._say(line)


class _Stream:
    """Bytes as lines. A carriage return begins the line anew, as on a terminal."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = self._shown = ""
        self._returned = False
        """Whether the cursor is back at the line's beginning: what comes next takes the line's place."""
        self.begun = 0.0
        """When the line that has not ended has begun."""

    @property
    def rest(self) -> list[str]:
        """What is new in the line that has not ended."""
        new = self._line.removeprefix(self._shown)
        return [new] if new else []

    def take(self, data: bytes, now: float) -> list[str]:
        """The lines that end in these bytes."""
        *ended, last = self._decoder.decode(data).split("\n")
        lines = []
        for text in ended:
            self._write(text)
            lines += self.rest or ([] if self._shown else [""])
            self._line = self._shown = ""
            self._returned = False
        if not self._line:
            self.begun = now
        self._write(last)
        return lines

    def so_far(self) -> list[str]:
        """What is new in the line that has not ended, which then counts as given out."""
        rest = self.rest
        self._shown = self._line
        return rest

    def close(self) -> list[str]:
        """What is left at the end."""
        self._write(self._decoder.decode(b"", final=True))
        return self.rest

    def _write(self, text: str) -> None:
        for number, part in enumerate(text.split("\r")):
            if number:
                self._returned = True
            if part:
                self._line = (part if self._returned else self._line + part)[: LONGEST + 1]
                self._returned = False


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"

"""`self.history`: what was said before, also before a compaction.

Comes in: pages of the transcript, from the host. Goes out: what code looks for in it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

from codeact_kernel.inkernel.bridge import Bridge
from codeact_kernel.inkernel.outputtext import OutputText

HITS = 20
"""Lines that a search gives, unless told: about a page."""
AROUND = 150
"""Characters of a long line that are given on each side of what was found."""


class History:
    """All that was said in this conversation, compactions or not: what you wrote, and what you read.

    `history.search(what)` gives the turns and lines that hold it, `history.turn(n)` all of a turn, `history.task` the
    task and `history.notes` the notes, whole; `history.text` is all of it, as a text that is fetched as it is read.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def search(self, pattern: str | re.Pattern[str], most: int = HITS) -> list[tuple[int, str]]:
        """Find lines; of very many the latest.

        Args:
            pattern: A regular expression; what is none is looked for as it stands.
            most: How many lines are enough.

        Returns:
            The number of the turn, 0 for what was before the first one, and the line; of a long line what is around
            the first match. Oldest first.
        """
        wanted = _compiled(pattern)
        found = self.text.search(wanted, most=None)[-most:] if most > 0 else []
        turns = [(0, 0), *self._turns()]
        starts = [start for _, start in turns]
        return [(turns[bisect_right(starts, number) - 1][0], _around(line, wanted)) for number, line in found]

    def turn(self, number: int) -> str:
        """All that was said in a turn: what you wrote, and what you read then.

        Args:
            number: The turn's, as `search` gives it.

        Raises:
            ValueError: If there was no such turn.
        """
        turns = self._turns()
        place = next((at for at, (turn, _) in enumerate(turns) if turn == number), None)
        if place is None:
            raise ValueError(
                f"there is no turn {number}; the turns so far: 1 to {turns[-1][0] if turns else 0}"
            )
        after = turns[place + 1][1] if place + 1 < len(turns) else None
        return "\n".join(self.text.lines(turns[place][1], after))

    @property
    def text(self) -> OutputText:
        """All of it, oldest first: `text[a:b]`, `text.lines(a, b)`, `text.search(pattern)`."""

        def page(start: int, stop: int | None, lines: bool) -> Any:
            return self._bridge.call("self.history", (start, stop), {"lines": lines})

        return OutputText("history", page)

    @property
    def task(self) -> str:
        """The task, whole."""
        task: str = self._bridge.call("self.history.task")
        return task

    @property
    def notes(self) -> list[str]:
        """The notes that you got, whole, oldest first."""
        notes: list[str] = self._bridge.call("self.history.notes")
        return notes

    def _turns(self) -> list[tuple[int, int]]:
        turns: list[tuple[int, int]] = self._bridge.call("self.history.turns")
        return turns

    def __repr__(self) -> str:
        return "<what was said before; help(self.history) tells what it can do>"


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error:
        return re.compile(re.escape(pattern))  # type: ignore[type-var]


def _around(line: str, pattern: re.Pattern[str]) -> str:
    """What is found in a line, with what stands around it."""
    match = pattern.search(line)
    if match is None or len(line) <= 3 * AROUND:
        return line
    begin, end = max(0, match.start() - AROUND), min(len(line), match.start() + 2 * AROUND)
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"

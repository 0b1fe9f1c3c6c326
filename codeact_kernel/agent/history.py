"""What was said so far, for the code of blocks: it outlives compactions.

Comes in: the transcript, in which secrets are masked. Goes out: its entries as one text, in pages, and where each turn
begins in it; the task, and the notes, whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codeact_kernel.context import told
from codeact_kernel.errors import ToolError
from codeact_kernel.events import Reply
from codeact_kernel.runfiles import SpilledFile
from codeact_kernel.supervisor import Tape
from codeact_kernel.transcript import Transcript


class History:
    """The transcript as one text, which only grows: written when it is asked for, or is taken out of the transcript.

    Args:
        transcript: What happened.
        place: Makes the file in which the text goes on once it is long.
    """

    def __init__(self, transcript: Transcript, place: Callable[[], SpilledFile]) -> None:
        self._transcript = transcript
        self._tape = Tape(place)
        self._turns: list[tuple[int, int]] = []
        """The number of each turn, and the line with which it begins."""
        self._written = 0
        """Entries that are in the text."""
        transcript.before_taking.append(self._write)

    @property
    def methods(self) -> dict[str, Callable[..., Any]]:
        """What `self.history` calls, by full name."""
        return {
            "self.history": self.page,
            "self.history.turns": self.turns,
            "self.history.task": self.task,
            "self.history.notes": self.notes,
        }

    async def page(self, start: int = 0, stop: int | None = None, *, lines: bool = False) -> dict[str, Any]:
        """A part of the text, as `Tape.page` has it."""
        self._write()
        try:
            return self._tape.page(start, stop, lines=lines)
        except OSError as error:
            raise ToolError(f"the history can no longer be read: {error}") from None

    async def turns(self) -> list[tuple[int, int]]:
        """The number of each turn, and the line of the text with which it begins, counted from 0."""
        self._write()
        return self._turns

    async def task(self) -> str:
        """The task of the run that goes on, whole."""
        return self._transcript.runs[-1].start.task

    async def notes(self) -> list[str]:
        """All notes, whole, oldest first."""
        return [note.text for note in self._transcript.notes]

    def handle_of(self, note: str) -> str | None:
        """Code that gives a note whole; None where it was not kept.

        Args:
            note: Its text.
        """
        texts = [note.text for note in self._transcript.notes]
        at = max((number for number, text in enumerate(texts) if text == note), default=None)
        return None if at is None else f"self.history.notes[{at}]"

    def _write(self) -> None:
        for entry in self._transcript.entries[self._written - self._transcript.taken :]:
            if isinstance(entry, Reply):
                self._turns.append((entry.turn, self._tape.lines))
                self._tape.append(f"--- turn {entry.turn} ---\n")
            self._tape.append(f"{told(entry)}\n\n")
            self._written += 1

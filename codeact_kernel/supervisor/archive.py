"""Blocks that ended long ago.

Comes in: blocks that have ended. Goes out: how each ended, and what it has put out, from one file that all share: a run
of days has more blocks than memory should hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from codeact_kernel.blocks import Status
from codeact_kernel.runfiles import SpilledFile
from codeact_kernel.supervisor.live import BlockWatch
from codeact_kernel.supervisor.tape import Tape, encoded


@dataclass(frozen=True, slots=True)
class ArchivedBlock:
    """What is known of one."""

    status: Status
    text: Tape | tuple[int, int]
    """What it has put out: in a file of its own, or where in the shared one, in bytes."""


class Archive:
    """Keeps what is known of them.

    Args:
        place: Makes the shared file; may raise an `OSError`.
    """

    def __init__(self, place: Callable[[], SpilledFile]) -> None:
        self._place = place
        self._file: SpilledFile | None = None
        self._size = 0
        self._blocks: dict[str, ArchivedBlock] = {}

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._blocks

    def take(self, watch: BlockWatch) -> bool:
        """Take a block that has ended.

        Args:
            watch: The block.

        Returns:
            Whether it was taken; it stays where it is where its output cannot be written.
        """
        tape, status = watch.log.tape, watch.ended.result().status
        if tape.error is not None:
            return False
        try:
            if tape.path is not None:
                tape.write()
                kept: Tape | tuple[int, int] = tape
            else:
                kept = self._write(encoded(tape.read()))
        except OSError:
            return False
        self._blocks[watch.job.id] = ArchivedBlock(status, kept)
        return True

    def status(self, job_id: str) -> Status:
        """How a block ended."""
        return self._blocks[job_id].status

    def tape(self, job_id: str) -> Tape:
        """What a block has put out.

        Raises:
            OSError: If the file is gone, or another one is in its place.
        """
        text = self._blocks[job_id].text
        if isinstance(text, Tape):
            return text
        tape = Tape(self._place)
        if text[1]:
            assert self._file is not None
            tape.append(self._file.read(*text).decode())
        return tape

    def _write(self, data: bytes) -> tuple[int, int]:
        if not data:
            return 0, 0
        self._file = self._file or self._place()
        try:
            self._file.append([data])
        except OSError:
            self._file.shorten(self._size)
            raise
        self._size += len(data)
        return self._size - len(data), len(data)

"""The append-only file of everything that happened.

Comes in: events. Goes out: `journal.jsonl`, one event a line, each on its way to the disk before the next
thing happens: what a crash of this process leaves behind is whole lines, and at most one that is half
written. What the model has been told, and each block before it runs, is on the disk itself: that survives the
machine, too. Of a block that prints very much the text past the first million characters is only counted: the
block's own file has it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

from codeact_kernel.blocks import LeftOut, StreamOutput
from codeact_kernel.errors import RecordError
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    Drafted,
    Event,
    ReplyDelta,
    RunEnded,
    RunResumed,
    RunStarted,
    to_json,
)
from codeact_kernel.record.seal import Seal
from codeact_kernel.runfiles import Folder
from codeact_kernel.signing import Signer

TEXT = 2**20
"""Characters of a block's streams that are written; a supervisor has a file for what is longer than that."""
KEPT = 2**26
"""Bytes that wait in memory for room on the disk; past that nothing more is kept."""
_PIECE = 2**20
"""Bytes that are written at once."""
_TO_DISK = (RunStarted, RunResumed, Drafted, Appended, BlockFinished, RunEnded)
"""What the disk has before anything else happens. Of tool calls the audit sees to that."""


class Journal:
    """An `Observer` that appends each event to a file. A `with`: leaving it closes the file.

    `ReplyDelta` is left out, since the whole reply follows. A file that cannot be written does not end the
    run: the first failure is reported, once, and stays in `error`. What is missing is written first when there is
    room again; so the journal may end early, and never has a gap.

    Args:
        path: The file. Its folder is made where it is missing; what is in it stays.
        report: Called with the first failure.
        folder: The folder, held open by somebody; None opens it by its path.
        seal: Signs the lines; None for no signatures.
        sync: Whether what the model is told and each block is brought to the disk itself.
    """

    def __init__(
        self,
        path: Path,
        *,
        report: Callable[[RecordError], None],
        folder: Folder | None = None,
        seal: Seal | None = None,
        sync: bool = True,
    ) -> None:
        self.path = path
        self._folder = folder
        self._seal = seal
        self._sync = sync
        self.error: RecordError | None = None
        """Why it could not be written, once; None where it could."""
        self._report = report
        self._file: FileIO | None = None
        self._rest = bytearray()
        """What is not written yet."""
        self._is_over = False
        """Whether too much has waited: something is lost then, and nothing may stand behind a gap."""
        self._text: dict[str, int] = {}
        """Characters of the streams of each block that runs."""

    def __enter__(self) -> Self:
        try:
            folder = self._folder or Folder.make(self.path.parent)
            try:
                fd = folder.append(self.path.name)
            finally:
                if folder is not self._folder:
                    folder.close()
            self._file = open(fd, "ab", buffering=0)
            if _is_torn(fd):
                self._rest += b"\n"
        except OSError as error:
            self._failed(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            self._write()
            self._file.close()
            self._file = None

    def __call__(self, event: Event) -> None:
        """Append one event.

        Args:
            event: The next event. Lone surrogates in its text are kept, as JSON escapes.
        """
        if self._file is None or isinstance(event, ReplyDelta):
            return
        if not self._is_over:
            self._rest += _line(self._bounded(event), self._seal)
        self._write(to_disk=self._sync and isinstance(event, _TO_DISK))
        self._is_over = self._is_over or len(self._rest) > KEPT

    def _write(self, *, to_disk: bool = False) -> None:
        """Write what waits, as far as there is room."""
        assert self._file is not None
        try:
            while self._rest:
                del self._rest[: self._file.write(self._rest[:_PIECE])]
            if to_disk:
                getattr(os, "fdatasync", os.fsync)(self._file.fileno())
        except OSError as error:
            self._failed(error)

    def _bounded(self, event: Event) -> Event:
        """The event, without the text of a block that has put out too much of it."""
        if isinstance(event, BlockFinished):
            self._text.pop(event.result.id, None)  # what comes late is counted anew
        if not (isinstance(event, BlockOutput) and isinstance(event.output, StreamOutput)):
            return event
        text, before = event.output.text, self._text.get(event.id, 0)
        self._text[event.id] = before + len(text)
        return event if before < TEXT else replace(event, output=LeftOut(len(text), text.count("\n")))

    def _failed(self, error: OSError) -> None:
        if self.error is None:
            self.error = RecordError(
                f"The journal {self.path} cannot be written ({error.strerror or error}). The run goes on, "
                "but what happens until there is room again cannot be resumed."
            )
            self._report(self.error)


def write_journal(folder: Folder, name: str, events: Iterable[Event], signer: Signer | None) -> str:
    """Write a journal whole, in the place of one that is there, in one step.

    Args:
        folder: Its folder, open.
        name: Its file.
        events: All that it holds.
        signer: Signs the lines; None for no signatures.

    Returns:
        The signature of its last line.

    Raises:
        RecordError: If it cannot be written. What was there before is still there.
    """
    seal = None if signer is None else Seal(signer)
    try:
        folder.replace(name, (_line(event, seal) for event in events))
    except OSError as error:
        raise RecordError(
            f"the journal {folder.path / name} cannot be written: {error.strerror or error}"
        ) from error
    return "" if seal is None else seal.last


def _line(event: Event, seal: Seal | None) -> bytes:
    line = json.dumps(to_json(event)).encode("ascii")
    return (line if seal is None else seal.sealed(line)) + b"\n"


def _is_torn(fd: int) -> bool:
    """Whether a file's last line has no end: the process that wrote it was killed in the middle."""
    size = os.fstat(fd).st_size
    os.lseek(fd, max(0, size - 1), os.SEEK_SET)
    return os.read(fd, 1) not in (b"", b"\n")

"""The append-only file of everything that happened.

Comes in: events. Goes out: `journal.jsonl`, one event a line, each on its way to the disk before the next
thing happens: what a crash of this process leaves behind is whole lines, and at most one that is half
written. Of a block that prints very much the text past the first million characters is only counted: the block's
own file has it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

from codeact_kernel.blocks import LeftOut, StreamOutput
from codeact_kernel.errors import RecordError
from codeact_kernel.events import BlockOutput, Event, ReplyDelta, to_json
from codeact_kernel.runfiles import Folder

TEXT = 2**20
"""Characters of a block's streams that are written; a supervisor has a file for what is longer than that."""


class Journal:
    """An `Observer` that appends each event to a file. A `with`: leaving it closes the file.

    `ReplyDelta` is left out, since the whole reply follows. A file that cannot be written does not end the
    run: the first failure is reported, once, and stays in `error`, because from then on the journal has a
    gap.

    Args:
        path: The file. Its folder is made where it is missing; what is in it stays.
        report: Called with the first failure.
        folder: The folder, held open by somebody; None opens it by its path.
    """

    def __init__(
        self, path: Path, *, report: Callable[[RecordError], None], folder: Folder | None = None
    ) -> None:
        self.path = path
        self._folder = folder
        self.error: RecordError | None = None
        """Why there is a gap, or None where there is none."""
        self._report = report
        self._file: FileIO | None = None
        self._torn = False
        """Whether the file ends in the middle of a line."""
        self._text: dict[str, int] = {}
        """Characters of each block's streams so far."""

    def __enter__(self) -> Self:
        try:
            folder = self._folder or Folder.make(self.path.parent)
            try:
                fd = folder.append(self.path.name)
            finally:
                if folder is not self._folder:
                    folder.close()
            self._file = open(fd, "ab", buffering=0)
            self._torn = _is_torn(fd)
        except OSError as error:
            self._failed(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def __call__(self, event: Event) -> None:
        """Append one event.

        Args:
            event: The next event. Lone surrogates in its text are kept, as JSON escapes.
        """
        if self._file is None or isinstance(event, ReplyDelta):
            return
        line = ("\n" if self._torn else "") + json.dumps(to_json(self._bounded(event))) + "\n"
        rest = memoryview(line.encode("ascii"))
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
                self._torn = bool(rest)
        except OSError as error:
            self._failed(error)

    def _bounded(self, event: Event) -> Event:
        """The event, without the text of a block that has put out too much of it."""
        if not (isinstance(event, BlockOutput) and isinstance(event.output, StreamOutput)):
            return event
        text, before = event.output.text, self._text.get(event.id, 0)
        self._text[event.id] = before + len(text)
        return event if before < TEXT else replace(event, output=LeftOut(len(text), text.count("\n")))

    def _failed(self, error: OSError) -> None:
        if self.error is None:
            self.error = RecordError(
                f"The journal {self.path} cannot be written ({error.strerror or error}). The run goes on, "
                "but cannot be resumed from it."
            )
            self._report(self.error)


def _is_torn(fd: int) -> bool:
    """Whether a file's last line has no end: the process that wrote it was killed in the middle."""
    size = os.fstat(fd).st_size
    os.lseek(fd, max(0, size - 1), os.SEEK_SET)
    return os.read(fd, 1) not in (b"", b"\n")

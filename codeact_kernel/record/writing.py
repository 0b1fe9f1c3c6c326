"""Puts a notebook on the disk, again and again, while it grows.

Comes in: the transcript as it is, and what was taken out of it since the last time. Goes out: the file, whole: written
beside the old one, which it replaces in one step. What is settled is laid out once and copied from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from codeact_kernel.record.layout import laid_out
from codeact_kernel.record.notebook import LISTS, Lists, Notebook, NotebookSettings, framed, settled_lists
from codeact_kernel.record.older import Older
from codeact_kernel.record.overview import Overview
from codeact_kernel.record.trust import KEY, signature
from codeact_kernel.runfiles import Folder
from codeact_kernel.signing import Signer
from codeact_kernel.transcript import Settled, Transcript


class NotebookFile:
    """A notebook's file.

    Args:
        path: The notebook. Its folder is made where it is missing.
        settings: How much the notebook keeps.
        folder: Its folder, held open by somebody; None opens it by its path.
        signer: Signs it; None for no signature.
    """

    def __init__(
        self,
        path: Path,
        settings: NotebookSettings | None = None,
        folder: Folder | None = None,
        signer: Signer | None = None,
    ) -> None:
        self.path = path
        self._settings = settings
        self._folder = folder
        self._signer = signer
        self._older: Older | None = None
        self._overview: Overview | None = None
        """Counts all that was taken out of the transcript."""
        self._waiting: list[Settled] = []
        """What was taken out of the transcript and could not be written yet."""

    def write(self, transcript: Transcript, settled: Settled | None = None) -> OSError | None:
        """Write it.

        Args:
            transcript: What it holds; it must not change meanwhile.
            settled: What was taken out of it; every time all that was taken out since the last time.

        Returns:
            Why it could not be written, or None. The old version is then still there.
        """
        if settled is not None:
            self._overview = self._overview or Overview.of(transcript)
            self._overview.add(settled.runs)
            self._waiting.append(settled)
        frame, live = framed(transcript, self._settings, self._overview)
        try:
            place = self._folder or Folder.make(self.path.parent)
            try:
                self._settle(live, place)
                place.replace(self.path.name, self._text(frame, live))
            finally:
                if place is not self._folder:
                    place.close()
        except OSError as error:
            return error
        return None

    def close(self) -> None:
        """Let go of what it holds."""
        if self._older is not None:
            self._older.close()
            self._older = None

    def _settle(self, live: Lists, place: Folder) -> None:
        while self._waiting:
            if self._older is None:
                self._older = Older(_nameless(place, f".{self.path.name}.older.part"))
            later = [settled_lists(settled, self._settings) for settled in self._waiting[1:]]
            others = {name: [*live[name], *(p for lists in later for p in lists[name])] for name in LISTS}
            self._older.add(settled_lists(self._waiting[0], self._settings), others)
            del self._waiting[0]

    def _text(self, frame: Notebook, live: Lists) -> Iterator[bytes]:
        older = self._older or Older(-1)
        lists = {name: older.merged(name, live[name]) for name in LISTS}
        about = frame["metadata"]["codeact"]
        if self._signer is not None:
            digests = {name: b"".join(segment.digests for segment in lists[name]) for name in LISTS}
            about = about | {KEY: signature(self._signer, frame, digests)}

        def listed(name: str, end: str) -> Iterator[bytes]:
            if not lists[name]:
                yield b"[]"
                return
            between = b"[\n"
            for segment in lists[name]:
                yield between
                yield from older.read(segment)
                between = b",\n"
            yield f"\n{end}]".encode()

        yield b'{\n "cells": '
        yield from listed("cells", " ")
        yield b',\n "metadata": {\n  "codeact": {'
        between = b"\n   "
        for key in sorted((*about, *LISTS[1:])):
            yield between + laid_out(key, 0).encode() + b": "
            if key in LISTS:
                yield from listed(key, "   ")
            else:
                yield laid_out(about[key], 3).encode()
            between = b",\n   "
        yield b"\n  }"
        for key in sorted(frame["metadata"].keys() - {"codeact"}):
            yield f",\n  {laid_out(key, 0)}: {laid_out(frame['metadata'][key], 2)}".encode()
        yield b'\n },\n "nbformat": 4,\n "nbformat_minor": 5\n}\n'


def write_notebook(
    path: Path,
    transcript: Transcript,
    settings: NotebookSettings | None = None,
    folder: Folder | None = None,
    signer: Signer | None = None,
) -> OSError | None:
    """Write a notebook once.

    Args:
        path: As for `NotebookFile`.
        transcript: What it holds; it must not change meanwhile.
        settings: As for `NotebookFile`.
        folder: As for `NotebookFile`.
        signer: As for `NotebookFile`.

    Returns:
        Why it could not be written, or None. The old version is then still there.
    """
    return NotebookFile(path, settings, folder, signer).write(transcript)


def _nameless(folder: Folder, name: str) -> int:
    """A file that no folder shows, and that goes with us; on the record's own disk: others may be memory."""
    folder.remove(name)
    fd = folder.create(name)
    with suppress(OSError):
        folder.remove(name)
    return fd

"""A journal, read: what happened, as far as it was written; also while somebody writes it.

Comes in: `journal.jsonl`, whole or cut off anywhere. Goes out: its events in order, and what of it was none. A line
that a crash has torn is passed over, as is one that no version of ours has written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from codeact_kernel.decoding import from_json
from codeact_kernel.errors import RecordError
from codeact_kernel.events import Event
from codeact_kernel.record.seal import Seal
from codeact_kernel.runfiles import open_plain
from codeact_kernel.signing import Signer

PIECE = 2**20
"""Bytes of a journal that are read at once by who follows it: some tenths of a second of work."""


@dataclass(slots=True)
class JournalRead:
    """What a journal holds, in numbers."""

    events: int = 0
    torn: int = 0
    """Lines that are no JSON: a crash has cut them off."""
    foreign: int = 0
    """Lines that are JSON, and no event that is known here, or one that does not go on from what stands before it."""
    unsigned: int = 0
    """Events that the installation has not signed, or not in this place."""
    last: str = ""
    """The signature of the last line that has a right one."""

    @property
    def is_ours(self) -> bool:
        """Whether all of it was written by this user's installation."""
        return not (self.unsigned or self.foreign)


class JournalFollower:
    """Reads a journal that somebody may be writing, without a lock and without a descriptor that stays open.

    Args:
        path: The file; it may not be there yet.
        take: As for `read_journal`.
    """

    def __init__(self, path: Path, take: Callable[[Event], None]) -> None:
        self.read = JournalRead()
        """What has come so far, signatures aside."""
        self._path = path
        self._take = take
        self._at = 0
        self._rest = bytearray()
        """The beginning of a line whose end was not written yet."""

    def poll(self) -> bool:
        """Take the events that have come since, of many of them the first.

        Returns:
            Whether there may be more already.

        Raises:
            RecordError: If it cannot be read.
        """
        try:
            with open_plain(self._path) as file:
                file.seek(self._at)
                data = file.read(PIECE)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unreadable(self._path, error) from error
        self._at += len(data)
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest.clear()
        self._rest += rest
        for line in lines:
            _read_line(line, self.read, self._take, None)
        return len(data) == PIECE


def read_journal(path: Path, take: Callable[[Event], None], signer: Signer | None) -> JournalRead:
    """Read a journal.

    Args:
        path: The file.
        take: Gets each event. Where it raises a `LookupError` the event does not go on from what stands before it.
        signer: Whose signatures count; None where there is none: all of it is unsigned then.

    Returns:
        What there was.

    Raises:
        RecordError: If it cannot be read.
    """
    read, seal = JournalRead(), None if signer is None else Seal(signer)
    try:
        with open_plain(path) as file:
            for raw in file:
                _read_line(raw.rstrip(b"\n"), read, take, seal)
    except OSError as error:
        raise _unreadable(path, error) from error
    read.last = "" if seal is None else seal.last
    return read


def _unreadable(path: Path, error: OSError) -> RecordError:
    return RecordError(f"the journal {path} cannot be read: {error.strerror or error}")


def _read_line(line: bytes, read: JournalRead, take: Callable[[Event], None], seal: Seal | None) -> None:
    if not line:
        return
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        read.torn += 1
        return
    signed = seal is not None and seal.is_right(line)
    try:
        take(from_json(value))
    except (ValueError, LookupError, RecursionError):
        # One of ours of a later version is no stranger's.
        read.foreign += not signed
        return
    read.events += 1
    read.unsigned += not signed

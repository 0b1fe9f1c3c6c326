"""The audit: what a run has done, line by line, each signed together with the one before it.

Comes in: events of all agents of a run. Goes out: `audit.jsonl`, and how far it goes (`lines`, `head`), which the
journal and the notebook keep, too. A line of what is about to happen is on the disk before it happens, unless the user
has said that nothing waits for the disk.

Each line is a JSON object with `n`, its number; `prev`, the signature of the line before; and last `mac`, its own: the
HMAC-SHA-256 of all that stands before it in the line. So none can be changed, taken out, moved or added by somebody who
does not have the key (see `signing`); and lines taken off the end are missed where `lines` and `head` are kept.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from codeact_kernel.errors import RecordError
from codeact_kernel.events import Event
from codeact_kernel.policy.audited import AUDITED, When
from codeact_kernel.policy.chain import last_line, seal, sealed
from codeact_kernel.policy.ledger import Ledger
from codeact_kernel.runfiles import Folder, write_all
from codeact_kernel.signing import Signer

if sys.platform != "win32":
    import fcntl

VERSION = 1
_DELAY = 0.01
"""Seconds that a line of what has happened already may wait for the next one: together they take half the time. Where
nothing waits for the disk, so may the line of a call: thousands of calls are cheap then."""


class Audit:
    """Writes the audit of a run, one for its whole tree of agents.

    Until it is opened events are kept, and written then; `leave` says that it will never be.

    Args:
        strict: Whether what cannot be audited does not happen. Else a gap is counted, told once, and the run goes on.
        sync: Whether lines are brought to the disk itself. Without, they survive this process, not the machine; and
            those of calls are written a hundredth of a second later.
        on_failure: Told when a line cannot be written: each time where it is strict, else once.
        wall: The time in seconds since the epoch.
    """

    def __init__(
        self,
        *,
        strict: bool = True,
        sync: bool = True,
        on_failure: Callable[[RecordError], None] = lambda error: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.path: Path | None = None
        self.name = ""
        """Tells it from any other audit."""
        self.lines = 0
        self.head = ""
        """The signature of the last line."""
        self.strict = strict
        self.sync = sync
        self.on_failure = on_failure
        self._wall = wall
        self._signer: Signer | None = None
        self._ledger: Ledger | None = None
        self._fd: int | None = None
        self._size = 0
        self._kept: list[tuple[float, str, Event]] | None = []
        """What is not written yet, the oldest first; None where nothing ever will be."""
        self._late: asyncio.TimerHandle | None = None
        """Writes what nothing has come after."""
        self._waiting: asyncio.Future[None] | None = None
        self._behind = False
        """Whether a line is not known to be on the disk."""
        self._lost = 0
        """Lines that could not be written since the last one that was."""
        self._failed = False

    @property
    def is_open(self) -> bool:
        """Whether lines are written."""
        return self._fd is not None

    def open(self, folder: Folder, name: str, signer: Signer, ledger: Ledger | None = None) -> None:
        """Begin a file, or go on with one.

        Args:
            folder: Where it is.
            name: Its name.
            signer: Signs its lines.
            ledger: Notes how far it went; None for none.

        Raises:
            RecordError: If it cannot be written, another process writes it, or its end is not as it was written.
        """
        path = folder.path / name
        try:
            fd = folder.append(name)
        except OSError as error:
            raise RecordError(f"the audit {path} cannot be opened: {error.strerror or error}") from error
        try:
            _lock(fd, path)
            about = self._continued(fd, path, signer)
        except BaseException:
            os.close(fd)
            raise
        self._fd, self._signer, self._ledger, self.path = fd, signer, ledger, path
        early, self._kept = self._kept or [], []
        self._write([{"at": self._wall(), **about}], "later")
        for at, agent, event in early:
            self._take(at, agent, event)

    def leave(self) -> None:
        """Take that there will be none."""
        self._kept = None

    def __call__(self, event: Event, agent: str) -> None:
        """Take an event.

        Args:
            event: The event, before anybody else hears of it.
            agent: Whose it is.

        Raises:
            RecordError: If it is strict, and the line of what is about to happen cannot be written.
        """
        if type(event) in AUDITED:
            self._take(self._wall(), agent, event)

    async def settled(self) -> None:
        """Wait until all lines are on the disk: one sync for all who wait in the same round of the loop.

        Raises:
            RecordError: As for a call.
        """
        if not self._behind or not self.sync:
            return
        if self._waiting is None:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            loop.call_soon(self._sync_for_all, self._waiting)
        await asyncio.shield(self._waiting)

    def flush(self) -> None:
        """Write what is not written, and bring it to the disk, at once. Never raises."""
        self._write_kept()
        with suppress(RecordError):
            self._sync()

    def note(self) -> None:
        """Note how far it goes where no block can write."""
        if self._ledger is not None:
            self._ledger.note(self.name, self.lines, self.head)

    def close(self) -> None:
        """Write a last line and end; may be called twice. Never raises."""
        if self._fd is not None:
            self._write_kept()
            self._write([{"at": self._wall(), "event": "AuditEnded"}], "later")
            self.flush()
            self.note()
            os.close(self._fd)
            self._fd = None
        self._kept = None

    def _take(self, at: float, agent: str, event: Event) -> None:
        if self._kept is None:
            return
        self._kept.append((at, agent, event))
        if self._fd is None:
            return
        when = AUDITED[type(event)].due(event)
        if when == "now" or (when == "soon" and self.sync):
            self._write_kept(when)
        elif self._late is None:
            try:
                self._late = asyncio.get_running_loop().call_later(_DELAY, self._write_late)
            except RuntimeError:  # outside of the loop nothing comes later
                self._write_kept()

    def _write_late(self) -> None:
        self._late = None
        self._write_kept()

    def _write_kept(self, when: When = "later") -> None:
        if self._kept and self._fd is not None:
            kept, self._kept = self._kept, []
            self._write([_told(*each) for each in kept], when)

    def _continued(self, fd: int, path: Path, signer: Signer) -> dict[str, Any]:
        """What the first line says that is written now: that the audit begins, or goes on."""
        raw, torn = last_line(fd)
        self._size = os.fstat(fd).st_size
        if raw is None:
            self.name, self.lines, self.head = secrets.token_hex(8), 0, ""
            about = {"event": "AuditBegun", "version": VERSION, "audit": self.name, "key": signer.name}
        else:
            known = sealed(raw, signer)
            if known is None:
                raise RecordError(
                    f"the last line of the audit {path} is not as this installation wrote it: see "
                    "`codeact audit verify`, and move the file away to begin a new one"
                )
            self.name, self.lines, self.head = str(known["audit"]), known["n"], known["mac"]
            about = {"event": "AuditContinued"}
        if torn:
            self._size -= torn
            os.ftruncate(fd, self._size)
            about["torn"] = torn
        return about

    def _write(self, told: list[dict[str, Any]], when: When) -> None:
        """Write lines at once: all of them or none."""
        assert self._fd is not None
        assert self._signer is not None
        head, written = self.head, []
        lost = {"lost": self._lost} if self._lost else {}
        for number, about in enumerate(told, self.lines + 1):
            fields = {"n": number, "prev": head, "audit": self.name, **lost, **about}
            line, head = seal(fields, self._signer)
            written.append(line)
            lost = {}
        data = b"".join(written)
        try:
            write_all(self._fd, data)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            self._lost += len(told)
            self._fail(error, when)
            return
        self._size += len(data)
        self.lines, self.head, self._lost, self._behind = self.lines + len(told), head, 0, True
        if when == "now":
            self._sync(when)

    def _sync(self, when: When = "soon") -> None:
        if self._fd is None or not self._behind or not self.sync:
            return
        try:
            _to_disk(self._fd)
        except OSError as error:
            self._fail(error, when)
            return
        self._behind = False

    def _sync_for_all(self, waiting: asyncio.Future[None]) -> None:
        self._waiting = None
        try:
            self._sync()
        except RecordError as error:
            waiting.set_exception(error)
            waiting.exception()  # looked at: those who waited may have been cancelled
        else:
            waiting.set_result(None)

    def _fail(self, error: OSError, when: When) -> None:
        why = f"The audit {self.path} cannot be written ({error.strerror or error})"
        if not self.strict:
            if not self._failed:
                self._failed = True
                self.on_failure(
                    RecordError(f"{why}. The run goes on, and the audit says how many lines it lacks.")
                )
            return
        failure = RecordError(
            f'{why}, so nothing more is run. Make room, or write audit = "lenient" into your own settings.'
        )
        self.on_failure(failure)
        if when != "later":
            raise failure


def _told(at: float, agent: str, event: Event) -> dict[str, Any]:
    kind = type(event)
    return {"at": at, "agent": agent, "event": kind.__name__, **AUDITED[kind].read(event)}


def _to_disk(fd: int) -> None:
    getattr(os, "fdatasync", os.fsync)(fd)


def _lock(fd: int, path: Path) -> None:
    """Keep other processes from writing it; they would break the chain."""
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RecordError(
            f"the audit {path} is being written by another run: give this one its own"
        ) from None
    except OSError:
        return  # a file system without locks

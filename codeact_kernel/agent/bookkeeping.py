"""What an agent leaves behind: every event masked, audited, in the transcript and in the record.

Comes in: events as they happen. Goes out: the same as anybody else may hear of them, in the order in which they were
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from codeact_kernel.agent.auditing import open_audit, signer_or_none
from codeact_kernel.agent.config import Settings
from codeact_kernel.agent.discretion import Discretion, host_mask
from codeact_kernel.agent.kin import ROOT, Kin
from codeact_kernel.agent.past import Past
from codeact_kernel.agent.recording import Recording
from codeact_kernel.agent.runlock import RunLock
from codeact_kernel.errors import ConfigError, RecordError
from codeact_kernel.events import Audited, Event, RunEnded, TurnStarted
from codeact_kernel.policy import Audit
from codeact_kernel.runfiles import Folder
from codeact_kernel.transcript import Transcript


class Bookkeeping:
    """The books of one agent. The mask and the audit are those of its whole tree, and opened and closed by the root.

    Args:
        transcript: What happened so far.
        report: Told why something could not be kept, where the run goes on.
        break_off: Ends the run that goes on; gives whether one did.
        kin: The agent's place; None for a root.
    """

    def __init__(
        self,
        transcript: Transcript,
        report: Callable[[RecordError], None],
        break_off: Callable[[], bool],
        kin: Kin | None = None,
    ) -> None:
        self.mask = host_mask() if kin is None else kin.tree.mask
        """Knows the secrets that are not told."""
        self.audit = Audit() if kin is None else kin.tree.audit
        self.unaudited: RecordError | None = None
        """Why nothing more may run: it could not be audited."""
        self._transcript = transcript
        self._report = report
        self._break_off = break_off
        self._is_root = kin is None
        self._name = ROOT if kin is None else kin.name
        self._discretion = Discretion(self.mask)
        self._recording: Recording | None = None

    @property
    def notebook(self) -> Path | None:
        """Where the record is; None where none is kept, or not yet."""
        return self._recording.notebook if self._recording else None

    @property
    def folder(self) -> Folder | None:
        """The record's folder, open; None as for `notebook`."""
        return self._recording.folder if self._recording else None

    async def open_record(self, folder: Folder) -> None:
        """Begin a record.

        Args:
            folder: Its folder, open; it is closed with the record.

        Raises:
            ConfigError: If another process works in that folder.
        """
        lock = RunLock(folder) if self._is_root else None
        await self._record(Recording(folder, self._transcript, self._report, signer_or_none(), lock))

    async def go_on(self, past: Past) -> None:
        """Go on with a record.

        Args:
            past: The run that it is of.
        """
        recording = Recording(
            past.folder,
            self._transcript,
            self._report,
            signer_or_none(),
            past.lock,
            past.last,
            past.summary,
        )
        await self._record(recording)

    async def _record(self, recording: Recording) -> None:
        self._recording = recording
        await recording.opened()

    def open_audit(self, settings: Settings, chosen: Path | str | None) -> None:
        """Open the audit of the whole tree, where there is to be one and it is not open. For a root.

        Args:
            settings: Say whether there is to be one, and what its failure means.
            chosen: Its file; None for the one beside the record.

        Raises:
            RecordError: If it cannot be written, unless the settings do with that.
            ConfigError: If there is no key to sign it with, unless the settings do with that.
        """
        audit, self.unaudited = self.audit, None
        if audit.is_open or not self._is_root:
            return
        audit.strict, audit.sync = settings.audit == "strict", settings.audit_sync
        audit.on_failure = self._audit_failed
        if settings.audit == "off" or (chosen is None and self.folder is None):
            audit.leave()
            return
        try:
            open_audit(audit, chosen, self.folder)
        except (RecordError, ConfigError) as error:
            audit.leave()
            if audit.strict:
                raise
            self._report(RecordError(error.message))

    async def aclose(self) -> None:
        """Keep what is not kept, and close."""
        if self._is_root and self.audit.is_open:
            self.audit.close()
            self._keep(Audited(self.audit.lines, self.audit.head))
        if self._recording is not None:
            await self._recording.aclose()

    def take(self, event: Event) -> Iterator[Event]:
        """Keep an event.

        Args:
            event: As it happened.

        Yields:
            What may be told of it, each when it was kept.

        Raises:
            RecordError: If what it announces must not happen, because it cannot be audited.
        """
        for masked in self._discretion(event):
            self.audit(masked, self._name)
            if self._is_root and isinstance(masked, TurnStarted | RunEnded):
                yield from self._audited()
            self._keep(masked)
            yield masked

    def _audited(self) -> Iterator[Event]:
        """Let the journal and the notebook know how far the audit goes."""
        audit, known = self.audit, self._transcript.audit
        audit.flush()
        if audit.is_open and (known is None or known.head != audit.head):
            audit.note()
            event = Audited(audit.lines, audit.head)
            self._keep(event)
            yield event

    def _keep(self, event: Event) -> None:
        self._transcript.apply(event)
        if self._recording is not None:
            self._recording(event)

    def _audit_failed(self, error: RecordError) -> None:
        """Take that something could not be audited: what runs is ended where that must not be."""
        if self.audit.strict and (self._break_off() or self.unaudited is not None):
            self.unaudited = self.unaudited or error
        else:
            self._report(error)

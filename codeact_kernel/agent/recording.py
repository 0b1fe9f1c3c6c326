"""The record of an agent, from its first run to its end.

Comes in: the transcript, and every event. Goes out: `run.ipynb` and `journal.jsonl` in the run's folder, beside
the folder in which the supervisor puts outputs that are too long for either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from codeact_kernel.agent.runlock import RunLock
from codeact_kernel.errors import RecordError
from codeact_kernel.events import Event
from codeact_kernel.record import Journal, NotebookFile, Recorder, Seal, Summary
from codeact_kernel.runfiles import Folder
from codeact_kernel.signing import Signer
from codeact_kernel.transcript import Transcript

NOTEBOOK, JOURNAL, OUTPUTS, AUDIT = "run.ipynb", "journal.jsonl", "outputs", "audit.jsonl"


class Recording:
    """Writes the record in a task of its own, so that any task may begin it.

    Args:
        folder: The run's folder, open; it is closed with the record.
        transcript: What is written.
        report: Called with the first failure; the run goes on.
        signer: Signs the notebook and the journal; None for no signature.
        lock: Keeps other processes from this run; None for a sub-agent's. It is let go of with the record.
        last: The signature of the last line of the journal that is gone on with.
        summary: What there is to tell of the run so far; None at its beginning.
    """

    def __init__(
        self,
        folder: Folder,
        transcript: Transcript,
        report: Callable[[RecordError], None],
        signer: Signer | None = None,
        lock: RunLock | None = None,
        last: str = "",
        summary: Summary | None = None,
    ) -> None:
        self.folder = folder
        self.notebook = folder.path / NOTEBOOK
        self._recorder = Recorder(
            NotebookFile(self.notebook, None, folder, signer), transcript, report=report
        )
        seal = None if signer is None else Seal(signer, last)
        self._journal = Journal(folder.path / JOURNAL, report=report, folder=folder, seal=seal)
        self._lock = lock
        self._summary = summary or Summary(transcript)
        self._closing = asyncio.Event()
        self._open = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._keep(), name="record")

    async def opened(self) -> None:
        """Wait until events can be taken."""
        await self._open.wait()

    async def aclose(self) -> None:
        """Write what is not written, and end."""
        self._closing.set()
        await self._task
        if self._lock is not None:
            self._lock.release()
        self.folder.close()

    def __call__(self, event: Event) -> None:
        """Take an event that the transcript has heard of already."""
        self._journal(event)
        self._recorder(event)
        self._summary.apply(event)
        with suppress(OSError):  # where the disk is full, the journal and the notebook say so
            self._summary.write(event, self.folder)

    async def _keep(self) -> None:
        with self._journal:
            async with self._recorder:
                self._open.set()
                await self._closing.wait()

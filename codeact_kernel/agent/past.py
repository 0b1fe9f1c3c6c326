"""A run that was worked on before.

Comes in: its folder, or its notebook. Goes out: `Past`: all that happened, what is left open, and what the run was
asked to be. Its folder is locked from then on, so that no other process goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeact_kernel.agent.auditing import signer_or_none
from codeact_kernel.agent.options import LIMIT_FIELDS
from codeact_kernel.agent.recording import AUDIT, JOURNAL, NOTEBOOK
from codeact_kernel.agent.remains import Remains
from codeact_kernel.agent.runlock import RunLock
from codeact_kernel.agent.unrecorded import learn_of_audit
from codeact_kernel.blocks import Fault, Part
from codeact_kernel.dialogue import codec
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import Event, RunResumed, RunStarted
from codeact_kernel.messages import CallPiece, ToolCall
from codeact_kernel.record import (
    Summary,
    edits,
    is_ours,
    notebook_events,
    read_journal,
    read_notebook,
    write_journal,
    write_notebook,
)
from codeact_kernel.runfiles import Folder
from codeact_kernel.transcript import Transcript

OLD_JOURNAL = "journal.old.jsonl"
"""What was left of a journal that was written anew."""


class UntrustedRecord(ConfigError):
    """A record that this user's installation did not write, or that somebody has changed.

    Args:
        message: One line for a person.
        path: The journal or notebook.
    """

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.path = path


@dataclass(slots=True)
class Past:
    """What a run has come to."""

    folder: Folder
    """The run's, open."""
    lock: RunLock
    transcript: Transcript
    remains: Remains
    summary: Summary
    last: str = ""
    """The signature of the journal's last line."""
    is_ours: bool = False
    """Whether this user's installation wrote the record: whoever trusts another one does not trust where that leads."""
    anew: tuple[Event, ...] = ()
    """What the journal has to hold, where it was lost and is not written yet."""
    edits: str = ""
    """What a person has changed in the notebook that it was read from, for the model."""

    @property
    def now(self) -> RunStarted | RunResumed:
        """What the run was asked to be, as it was last."""
        return self.transcript.runs[-1].now

    @property
    def options(self) -> dict[str, Any]:
        """What was asked for, as fields of `Options`; what a resume has to be given anew is not among them."""
        limits = self.now.options.get("limits", {})
        had = {field: limits[name] for name, field in LIMIT_FIELDS.items() if name in limits}
        return had | {
            name: value for name, value in self.now.options.items() if name not in ("limits", "kept")
        }

    def mend(self) -> None:
        """Write the notebook as the journal has it: a process that was killed may not have come to that."""
        if not self.anew:
            write_notebook(
                self.folder.path / NOTEBOOK, self.transcript, folder=self.folder, signer=signer_or_none()
            )

    def write_journal_anew(self) -> None:
        """Put a journal in the place of one that was lost. What is left of that one stays beside it.

        Raises:
            RecordError: If it cannot be written. The run can still be resumed from its notebook then.
        """
        if self.anew:
            if self.folder.has(JOURNAL):
                self.folder.rename(JOURNAL, OLD_JOURNAL)
            self.last = write_journal(self.folder, JOURNAL, self.anew, signer_or_none())
            self.anew = ()

    def close(self) -> None:
        """Let go of the run."""
        self.lock.release()
        self.folder.close()


def open_past(run: Path, *, trusted: bool = False, from_notebook: bool = False) -> Past:
    """Open a run to go on with it.

    Args:
        run: Its folder, or its notebook.
        trusted: Whether its record is taken though this user's installation did not write it.
        from_notebook: Whether the notebook is read in the journal's place.

    Raises:
        ConfigError: If there is no such run, or another process works on it.
        UntrustedRecord: If it is not known to be this user's.
        RecordError: If the record cannot be read.
    """
    path = run.expanduser()
    path = path.parent if path.suffix == ".ipynb" else path
    source = path / (NOTEBOOK if from_notebook else JOURNAL)
    if not source.is_file():
        other = path / (JOURNAL if from_notebook else NOTEBOOK)
        hint = (
            ""
            if from_notebook or not other.is_file()
            else "; with --from-notebook it goes on from its notebook"
        )
        raise ConfigError(f"there is no run in {path}: {source.name} is missing{hint}")
    folder = Folder.make(path)
    transcript = Transcript()
    past = Past(folder, RunLock(folder), transcript, Remains(), Summary(transcript))
    try:
        past.is_ours = (_from_notebook if from_notebook else _from_journal)(past, source)
        if not past.transcript.runs:
            raise ConfigError(f"{source} tells of no run")
        if not (past.is_ours or trusted):
            raise UntrustedRecord(
                f"{source} was not written by this installation of yours, or somebody has changed it; a resume does "
                "what it says: look at it, and say --trust-record if you trust it",
                source,
            )
    except BaseException:
        past.close()
        raise
    return past


def _from_journal(past: Past, source: Path) -> bool:
    signer = signer_or_none()
    read = read_journal(source, _taking(past), signer)
    past.last = read.last
    if signer is not None:
        learn_of_audit(source.parent / AUDIT, signer, past.transcript, past.remains)
    if not past.transcript.runs or past.transcript.runs[-1].end is None:
        past.remains.heard(source.stat().st_mtime)
    return read.is_ours


def _from_notebook(past: Past, source: Path) -> bool:
    notebook = read_notebook(source)
    options = notebook["metadata"]["codeact"].get("options", {})
    past.anew = tuple(notebook_events(notebook, reply_parser(str(options.get("protocol", "tags")))))
    take = _taking(past)
    for event in past.anew:
        take(event)
    past.edits = edits(notebook, past.transcript.runs)
    signer = signer_or_none()
    return signer is not None and is_ours(source, signer)


def reply_parser(protocol: str) -> Callable[[str, tuple[ToolCall, ...]], tuple[Part, ...]]:
    """What reads the parts of a recorded reply.

    Args:
        protocol: How its model wrote blocks.

    Raises:
        ConfigError: If there is no such protocol.
    """

    def parse(text: str, calls: tuple[ToolCall, ...]) -> tuple[Part, ...]:
        reader = codec(protocol).reader(lambda code: True)
        items = [*reader.feed(text)]
        for index, call in enumerate(calls):
            items += reader.feed(CallPiece(index, call.id, call.name, call.arguments))
        items += reader.finish("stop")
        return tuple(item for item in items if not isinstance(item, Fault))

    return parse


def _taking(past: Past) -> Callable[[Event], None]:
    def take(event: Event) -> None:
        past.transcript.apply(event)
        past.remains.apply(event)
        past.summary.apply(event)

    return take

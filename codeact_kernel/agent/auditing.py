"""Where an agent's audit goes, and who signs what it leaves behind.

Comes in: what the caller wants, the run's folder. Goes out: an open audit; the installation's signer.
"""

from __future__ import annotations

from pathlib import Path

from codeact_kernel.agent.recording import AUDIT
from codeact_kernel.errors import ConfigError, RecordError
from codeact_kernel.policy import Audit, Ledger
from codeact_kernel.runfiles import Folder
from codeact_kernel.signing import Signer, data_dir, host_signer


def open_audit(audit: Audit, chosen: Path | str | None, folder: Folder | None) -> None:
    """Open the audit of a run.

    Args:
        audit: The audit.
        chosen: The file that the caller wants; None for `audit.jsonl` in the run's folder.
        folder: The run's folder, open; None where no record is kept.

    Raises:
        RecordError: If it cannot be written.
        ConfigError: If the installation has no key, and none can be made.
    """
    signer, ledger = host_signer(), Ledger(data_dir())
    if chosen is None:
        assert folder is not None
        audit.open(folder, AUDIT, signer, ledger)
        return
    path = Path(chosen).expanduser()
    try:
        place = Folder.make(path.parent)
    except OSError as error:
        raise RecordError(f"the audit {path} cannot be opened: {error.strerror or error}") from error
    try:
        audit.open(place, path.name, signer, ledger)
    finally:
        place.close()


def signer_or_none() -> Signer | None:
    """The installation's signer; None where it has no key: a record that nobody signed is a stranger's."""
    try:
        return host_signer()
    except ConfigError:
        return None

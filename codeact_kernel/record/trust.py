"""Whether a record is one that this user's installation wrote.

Comes in: a notebook. Goes out: its signature; whether the one that a file holds is right. What runs again what a
record holds asks first where that is not ours.

It is a signature of our own and not that of Jupyter's notary: what the notary signs, JupyterLab trusts, and shows the
HTML and JavaScript that blocks have put out. Ours says who wrote a record, and nothing of what its outputs may do. The
notary signs a record only when its user says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codeact_kernel.errors import RecordError
from codeact_kernel.record.notebook import LISTS, parsed
from codeact_kernel.record.older import digest
from codeact_kernel.signing import Signer, host_signer

KEY = "signature"
"""Where the signature is, in the notebook's metadata under `codeact`."""
_PURPOSE = b"codeact record 2\n"
"""So that no line of an audit passes for a notebook."""


def signature(signer: Signer, frame: dict[str, Any], digests: dict[str, bytes]) -> dict[str, str]:
    """The signature of a notebook.

    Args:
        signer: Signs it.
        frame: All of it but its long lists.
        digests: Those, as the digests of their items.
    """
    return {"key": signer.name, "sha256": signer.sign(_signed(frame, digests))}


def is_ours(path: Path, signer: Signer | None = None) -> bool:
    """Whether this user's installation wrote a record, and nobody has changed it since.

    What a notebook says of itself (`trusted`, in any metadata) does not count, nor does how its JSON is laid out.

    Args:
        path: The notebook.
        signer: Whose signature counts; None takes the installation's.

    Raises:
        RecordError: If it cannot be read, or is no notebook.
        ConfigError: If the installation's key cannot be read.
    """
    notebook = parsed(path)
    about = notebook["metadata"].get("codeact")
    claim = about.pop(KEY, None) if isinstance(about, dict) else None
    if not isinstance(claim, dict) or not isinstance(claim.get("sha256"), str):
        return False
    lists = {name: (notebook if name == "cells" else about).pop(name, None) for name in LISTS}
    if not all(isinstance(items, list) for items in lists.values()):
        return False
    digests = {name: b"".join(map(digest, items)) for name, items in lists.items()}
    signer = host_signer() if signer is None else signer
    return signer.is_right(_signed(notebook, digests), claim["sha256"])


def trust_in_jupyter(path: Path) -> None:
    """Let the user's Jupyter trust a notebook, as it is now.

    Args:
        path: The notebook.

    Raises:
        RecordError: If it cannot be read, is no notebook, or Jupyter's signatures cannot be written.
    """
    import nbformat
    from nbformat.sign import NotebookNotary

    notebook = nbformat.from_dict(parsed(path))
    try:
        notary = NotebookNotary()
        try:
            notary.sign(notebook)
        finally:
            notary.store.close()
    except OSError as error:
        raise RecordError(f"Jupyter's signatures cannot be written: {error.strerror or error}") from error


def _signed(frame: dict[str, Any], digests: dict[str, bytes]) -> bytes:
    """All of it, in one order."""
    lists = {name: digests[name].hex() for name in LISTS}
    return _PURPOSE + json.dumps([frame, lists], sort_keys=True).encode()

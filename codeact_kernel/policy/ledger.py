"""How far each audit went, noted where no block can write: beside the key.

Comes in: an audit's name, lines and head. Goes out: a line for each time that it was noted, in the user's data folder.
Whoever cuts the end off an audit can also take what the journal and the notebook know of it: all three lie in the
workspace, in which a later run may write. This file does not.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from codeact_kernel.policy.chain import Head
from codeact_kernel.runfiles import Folder, write_all

FILE = "audits.jsonl"
LARGEST = 4 * 2**20
"""Bytes after which it is put aside as ".1", and what was there goes: some thirty thousand turns."""


class Ledger:
    """The notes of one user.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, audit: str, lines: int, head: str) -> None:
        """Note how far an audit goes. Never raises: it is one witness of three."""
        line = json.dumps({"audit": audit, "lines": lines, "head": head}) + "\n"
        with suppress(OSError):
            place = Folder.make(self._folder)
            try:
                fd = place.append(FILE)
                try:
                    if os.fstat(fd).st_size > LARGEST:
                        place.rename(FILE, f"{FILE}.1")
                        os.close(fd)
                        fd = place.append(FILE)
                    write_all(fd, line.encode())
                finally:
                    os.close(fd)
            finally:
                place.close()

    def heads(self, audit: str) -> list[Head]:
        """What was noted of an audit, the oldest first."""
        found = []
        for name in (f"{FILE}.1", FILE):
            with suppress(OSError):
                for line in (self._folder / name).read_text("utf-8", "replace").splitlines():
                    with suppress(ValueError, KeyError, TypeError):
                        noted = json.loads(line)
                        if noted["audit"] == audit:
                            found.append(
                                Head(int(noted["lines"]), str(noted["head"]), "the ledger of this user")
                            )
        return found

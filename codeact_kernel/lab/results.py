"""What runs have come to, by what was asked: so that running a notebook again from the top costs nothing.

Comes in: tasks with all that belongs to them; answered runs. Goes out: the run that has answered the same, if any. They
lie in the user's own folder for data, where no agent's block can write in a sandbox.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from codeact_kernel.runfiles import Folder, write_all
from codeact_kernel.signing import data_dir

FOLDER = "results"
KEPT = 200
"""Results that are kept, the newest ones. Ours: some notebooks' worth."""
_OBJECT = ".object"


def key_of(before: str, *asked: Any, parcel: str | None = None) -> str:
    """What tells one task from another.

    Args:
        before: The key of the task before it in the same conversation; empty for the first.
        *asked: All that belongs to it, as JSON has it.
        parcel: The file with the values that it works on.
    """
    digest = hashlib.sha256(json.dumps([before, *asked], sort_keys=True).encode())
    if parcel is not None:
        with open(parcel, "rb") as file:
            while part := file.read(2**20):
                digest.update(part)
    return digest.hexdigest()


class Results:
    """The results of one user.

    Args:
        folder: Where they are; None for the user's folder for data.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (data_dir() if folder is None else folder) / FOLDER

    def find(self, key: str, place: Path) -> dict[str, Any] | None:
        """A result, and a copy of the object that came with it.

        Args:
            key: Of the task.
            place: Where the copy goes.

        Returns:
            What `keep` was given, with "file" for the copy; None where there is none.
        """
        file = self._folder / key
        try:
            about = json.loads(file.read_text("utf-8"))
            if about["file"]:
                about["file"] = str(place / f"known-{key[:16]}")
                shutil.copyfile(f"{file}{_OBJECT}", about["file"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return dict(about)

    def keep(self, key: str, about: dict[str, Any]) -> None:
        """Keep a result; where that cannot be, there is none.

        Args:
            key: Of the task.
            about: What a plain JSON object holds; "file" is the object that was handed back, or None.
        """
        with suppress(OSError):
            place = Folder.make(self._folder)
            try:
                for old in sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime)[: -2 * KEPT]:
                    old.unlink()
                if about["file"]:
                    shutil.copyfile(about["file"], self._folder / f"{key}{_OBJECT}")
                with suppress(FileNotFoundError):
                    (self._folder / key).unlink()
                fd = place.create(key)
                try:
                    write_all(fd, json.dumps(about).encode())
                finally:
                    os.close(fd)
            finally:
                place.close()

"""Where outputs that are too long for memory are put.

Comes in: the run's folder for outputs, or none. Goes out: a new file for each block that needs one. Without a
folder it makes a temporary one, which goes when it is closed.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path


class Shelf:
    """Makes files for long outputs.

    Args:
        folder: Where they go; None for a temporary folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        """Where the next file goes; it is made with the first."""
        self.stays = True
        """Whether that folder stays where it is; of files in one that goes nobody is told."""
        self._temporary: Path | None = None

    def place(self, job_id: str) -> Path:
        """Choose a file.

        Args:
            job_id: The block whose output it will hold; the file's name tells it.

        Returns:
            A path at which there is nothing yet, in a folder that exists.

        Raises:
            OSError: If the folder cannot be made.
        """
        folder = self.folder
        if folder is None:
            if self._temporary is None:
                self._temporary = Path(tempfile.mkdtemp(prefix="codeact-outputs-"))
            folder = self._temporary
        folder.mkdir(parents=True, exist_ok=True)
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", job_id).strip("-")[:60] or "block"
        names = (f"{stem}.txt" if number == 1 else f"{stem}-{number}.txt" for number in range(1, 1_000_000))
        return next(path for name in names if not (path := folder / name).exists())

    def shown(self, path: Path | None) -> str | None:
        """How to call a file to somebody who stands in the run's folder; None for one that will go.

        Args:
            path: A file, or none.
        """
        if path is None or path.parent == self._temporary or not self.stays:
            return None
        return f"{path.parent.name}/{path.name}"

    def close(self) -> None:
        """Remove what is temporary. Never raises."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

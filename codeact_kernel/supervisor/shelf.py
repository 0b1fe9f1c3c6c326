"""Where outputs that are too long for memory are put.

Comes in: the run's folder for outputs, or none. Goes out: a new file for each block that needs one. Without a
folder it makes a temporary one, which goes when it is closed.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

from codeact_kernel.runfiles import Folder, SpilledFile


class Shelf:
    """Makes files for long outputs.

    Args:
        folder: Where they go; None for a temporary folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        """Where the next file goes; it is made with the first."""
        self.opens: Callable[[], Folder] | None = None
        """Opens that folder where no link may lead elsewhere; None where it is opened by its path."""
        self.stays = True
        """Whether that folder stays where it is; of files in one that goes nobody is told."""
        self._temporary: Path | None = None
        self._open: dict[Path, Folder] = {}

    def place(self, job_id: str) -> SpilledFile:
        """Make a file.

        Args:
            job_id: The block whose output it will hold; the file's name tells it.

        Returns:
            The file, new and empty.

        Raises:
            OSError: If it cannot be made.
        """
        folder = self._folder()
        return SpilledFile(folder, next(name for name in _names(job_id) if not folder.has(name)))

    def found(self, job_id: str) -> Iterator[SpilledFile]:
        """The files that an earlier process may have made for a block.

        Args:
            job_id: The block.

        Raises:
            OSError: If one is no plain file.
        """
        folder = self._folder()
        yield from (SpilledFile(folder, name, found=True) for name in takewhile(folder.has, _names(job_id)))

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
        for folder in self._open.values():
            folder.close()
        self._open.clear()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _folder(self) -> Folder:
        path = self.folder
        if path is None:
            if self._temporary is None:
                self._temporary = Path(tempfile.mkdtemp(prefix="codeact-outputs-"))
            path = self._temporary
        if path not in self._open:
            opens = self.opens if self.folder is not None else None
            self._open[path] = Folder.make(path) if opens is None else opens()
        return self._open[path]


def _names(job_id: str) -> Iterator[str]:
    """The names of files for a block's output, in order."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", job_id).strip("-")[:60] or "block"
    return (f"{stem}.txt" if number == 1 else f"{stem}-{number}.txt" for number in range(1, 1_000_000))

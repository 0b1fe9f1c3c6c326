"""The session so far as a notebook in the workspace.

Comes in: the transcript, and a path that a model wrote. Goes out: the file, written in one step. A file that did not
come from here is never replaced.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from codeact_kernel.errors import ToolError
from codeact_kernel.record import snapshot, write_notebook
from codeact_kernel.tools import Workspace
from codeact_kernel.transcript import Transcript


class Saver:
    """Writes notebooks.

    Args:
        folder: The workspace.
    """

    def __init__(self, folder: Path) -> None:
        self._workspace = Workspace(folder)
        self._ours: set[str] = set()

    async def save(self, transcript: Transcript, path: str) -> str:
        """Write a notebook.

        Args:
            transcript: What it holds. It may go on changing meanwhile.
            path: Where, as in the workspace.

        Returns:
            Where it is, from the workspace on.

        Raises:
            ToolError: If it cannot be written, or something else is there.
        """
        return await asyncio.to_thread(self._save, snapshot(transcript), path)

    def _save(self, transcript: Transcript, path: str) -> str:
        if not path.endswith(".ipynb"):
            raise ToolError(f"{path!r} is no name of a notebook: let it end with .ipynb")
        with self._workspace.walk(path, make_folders=True) as place:
            folder = Path(f"/proc/self/fd/{place.folder}")
            if place.real not in self._ours and os.path.lexists(folder / place.name):
                raise ToolError(f"there is a {path!r} already, and not from here; give another name")
            error = write_notebook(folder / place.name, transcript)
            if error is not None:
                raise ToolError(f"{path!r} cannot be written: {error.strerror or error}")
            self._ours.add(place.real)
            return place.real

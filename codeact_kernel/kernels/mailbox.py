"""Files on their way from one kernel to another: no kernel can reach what another one has.

Comes in: the path that a file has with the host, where only the host can reach it. Goes out: where a kernel writes it,
the file taken from there, and where another kernel finds it. Nothing is copied: a name is moved, another one added.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path


class Mailbox:
    """A kernel's own folder, as far as files of others come and go there.

    Args:
        own: The folder. The kernel can have anything lie there.
    """

    def __init__(self, own: Path) -> None:
        self._own = own

    def place(self, file: str) -> str:
        """Where the kernel writes a file.

        Args:
            file: The path that it will have with the host; its name is no other file's.
        """
        return str(self._own / f"out-{Path(file).name}")

    def name_of(self, place: object) -> str | None:
        """The name of a file that a kernel says it has written; None where that is no such place.

        Args:
            place: What it says.
        """
        start = str(self._own / "out-")
        name = place.removeprefix(start) if isinstance(place, str) and place.startswith(start) else ""
        return name if name.isdecimal() and name.isascii() else None

    def collect(self, file: str) -> None:
        """Take a file that the kernel has written.

        Args:
            file: The path that it gets.

        Raises:
            OSError: If there is none, or what lies there is no ordinary file.
        """
        # A link is moved as what it is, and leads nobody anywhere.
        os.rename(self.place(file), file)  # noqa: PTH104
        status = os.lstat(file)
        # With another name it may be a file of somebody else's, whom the kernel wants to lend it.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            with suppress(OSError):
                os.unlink(file)  # noqa: PTH108
            raise OSError("what was put there is no file")

    def put(self, file: str) -> str:
        """Let the kernel have a file. It may remove it.

        Args:
            file: Its path.

        Returns:
            Where the kernel finds it.

        Raises:
            OSError: If that cannot be done.
        """
        place = str(self._own / f"in-{Path(file).name}")
        # Another kernel's user has made it; the folder in which it lies with the host lets nobody else through.
        with suppress(OSError):
            os.chmod(file, 0o644, follow_symlinks=False)  # noqa: PTH101
        try:
            os.link(file, place, follow_symlinks=False)
        except FileExistsError:
            pass
        except OSError:
            shutil.copyfile(file, place, follow_symlinks=False)
        return place

"""What a server says on stderr, kept.

Comes in: bytes of stderr and of what is no message on stdout. Goes out: a file, without the values of the server's
variables and headers, and its last lines for an error's text.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from codeact_kernel.masking import Mask
from codeact_kernel.runfiles import Folder, write_all
from codeact_kernel.tools.mcp.names import Secrets, clean, identifier

FILE = 4 * 2**20
"""Bytes of a file, above which it is put aside as ".1" and another begun. Ours: days of an ordinary server."""
TAIL_LINES = 12
TAIL = 1_500
"""Lines, and characters, that an error's text holds of it. Ours: a traceback's end."""
_LINE = 2**14
"""Bytes of one line that are kept."""


class ServerLog:
    """The log of one server.

    Args:
        name: The server's name.
        folder: Gives the folder where its file is, open, asked whenever something is written; None keeps the last lines
            only.
        secrets: What must not be in it.
        mask: Knows what else must not be.
    """

    def __init__(
        self, name: str, folder: Callable[[], Folder | None], secrets: Secrets, mask: Mask | None = None
    ) -> None:
        self._mask = Mask() if mask is None else mask
        self._name = f"{identifier(name)}.log"
        self._folder = folder
        self._secrets = secrets
        self._part = b""
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.ending = ""
        """How its program ended: "exit code 1", "ended by SIGKILL"; of an address the last status, where that was no
        success. Empty where nothing is known."""
        self.forgotten = False
        """Whether an address no longer knows of the session."""

    @property
    def path(self) -> Path | None:
        """Its file."""
        folder = self._folder()
        return None if folder is None else folder.path / self._name

    def feed(self, data: bytes) -> None:
        """Take what came on stderr; lines may end anywhere."""
        *lines, self._part = (self._part + data).split(b"\n")
        if len(self._part) > _LINE:
            lines.append(self._part)
            self._part = b""
        self.lines([line[:_LINE].decode("utf-8", "replace") for line in lines])

    def lines(self, lines: list[str]) -> None:
        """Keep lines."""
        kept = [self._mask.text(self._secrets.hide(line.rstrip("\r"))) for line in lines]
        self._tail.extend(line for line in kept if line.strip())
        # A full disk must not end a server. The tail has it.
        with suppress(OSError):
            folder = self._folder()
            if kept and folder is not None:
                self._write(folder, "".join(f"{line}\n" for line in kept).encode("utf-8", "replace"))

    def _write(self, folder: Folder, data: bytes) -> None:
        fd = folder.append(self._name)
        try:
            if os.fstat(fd).st_size > FILE:
                folder.rename(self._name, f"{self._name}.1")
                os.close(fd)
                fd = folder.append(self._name)
            write_all(fd, data)
        finally:
            os.close(fd)

    def finish(self) -> None:
        """Keep a last line that has no end."""
        self.lines([self._part[:_LINE].decode("utf-8", "replace")] if self._part else [])
        self._part = b""

    def ended(self, code: int | None) -> None:
        """Note how its program ended; a negative code is a signal's number."""
        if code is None:
            self.ending = ""
        else:
            self.ending = f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"

    @property
    def tail(self) -> str:
        """Its last lines, as a sentence of an error's text; empty where there are none."""
        text = clean("\n".join(self._tail)[-TAIL:], TAIL)
        where = ""
        with suppress(OSError):
            where = f" ({path} has all)" if (path := self.path) is not None else ""
        return f" Its last lines on stderr{where}:\n{text}" if text else ""

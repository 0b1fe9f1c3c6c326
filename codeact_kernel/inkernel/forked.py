"""What a forked copy of the kernel's process is: an ordinary Python process that prints into its block's pipe.

Comes in: a fork. Goes out: text, in whole lines, on the copy's own stdout and stderr, where the kernel would send
messages; and an end where the copy would leave the block's code and become a second kernel.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import suppress
from typing import Any

ATOMIC = 4096
"""Bytes that one write puts into a pipe without another writer's in between (PIPE_BUF, pipe(7))."""

_copy = False
_libc = ctypes.CDLL(None) if os.name == "posix" else None


class LineWriter:
    """Writes whole lines to a descriptor, so that those of two processes do not mix.

    Args:
        fd: The descriptor.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._text = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        """Add text; lines that it completes are written.

        Args:
            text: The text.

        Returns:
            Its length.
        """
        with self._lock:
            lines, end, self._text = (self._text + text).rpartition("\n")
            self._put(lines + end)
        return len(text)

    def flush(self) -> None:
        """Write what is there of a line."""
        with self._lock:
            text, self._text = self._text, ""
            self._put(text)

    def _put(self, text: str) -> None:
        whole = b""
        for line in text.encode("utf-8", "backslashreplace").splitlines(keepends=True):
            if whole and len(whole) + len(line) > ATOMIC:
                self._put_bytes(whole)
                whole = b""
            whole += line
        self._put_bytes(whole)

    def _put_bytes(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]


class PrintedOutputs:
    """Stands for the request's outbox in a copy: what is shown there is printed, as far as it is text."""

    count = 0

    def write(self, name: str, text: str) -> None:
        """As in `Outbox`."""
        print(text, end="", file=getattr(sys, name))

    def flush(self) -> None:
        """As in `Outbox`."""

    def publish(self, message: dict[str, Any], topic: bytes) -> None:
        """As in `Outbox`."""
        content = message["content"]
        text = (content.get("data") or {}).get("text/plain")
        if "traceback" in content:
            print("\n".join(content["traceback"]), file=sys.stderr)
        elif text is not None:
            print(text)

    def make(self, msg_type: str, content: dict[str, Any]) -> dict[str, Any]:
        """As in `Outbox`."""
        return {"msg_type": msg_type, "content": content}


def become_copy() -> None:
    """In a forked child: take note of what it is."""
    global _copy
    _copy = True


def is_copy() -> bool:
    """Whether this process is one. Asked with every text that is written: it costs no system call."""
    return _copy


def leave_if_copy(error: BaseException | None = None) -> None:
    """End a copy that leaves the block's code, with the exit code of an ordinary Python process.

    Args:
        error: What ended the code, if it did not come to its end; its traceback was printed where it is no exit.
    """
    if not _copy:
        return
    code = 0 if error is None or isinstance(error, StopIteration) else 1
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def flush_c() -> None:
    """Write out what C code of this process has printed: else a fork copies it, and the next block gets it."""
    if _libc is not None:
        name = "__stdoutp" if sys.platform == "darwin" else "stdout"
        _libc.fflush(ctypes.c_void_p.in_dll(_libc, name))

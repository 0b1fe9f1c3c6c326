"""Lines from stdin, without a thread: a terminal or a pipe is read only when it has something.

Comes in: the bytes of stdin. Goes out: lines. Waiting for one can be cancelled, and leaves nothing behind
that would hold up the end of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator

from codeact_kernel.errors import ConfigError

_CHUNK = 1 << 16


class StdinLines:
    """Reads lines from a file of the system.

    Args:
        fd: Its number.
    """

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._rest = bytearray()
        self._ended = False

    async def read(self) -> str | None:
        """Wait for the next line.

        Returns:
            The line without its end, or None where there are no more.
        """
        while (end := self._rest.find(b"\n")) < 0:
            if self._ended:
                line, self._rest = self._rest, bytearray()
                return _text(line) if line else None
            await self._more()
        line = self._rest[:end]
        del self._rest[: end + 1]
        return _text(line)

    def drop(self) -> None:
        """Forget what was typed at a terminal before it was asked for; its Ctrl-D ends one answer, not all."""
        if os.isatty(self._fd):
            import termios

            termios.tcflush(self._fd, termios.TCIFLUSH)
            self._rest.clear()
            self._ended = False

    async def _more(self) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        try:
            loop.add_reader(self._fd, readable.set)
        except (OSError, NotImplementedError):
            pass  # a plain file never makes anybody wait; without such a loop there is no other way
        else:
            try:
                await readable.wait()
            finally:
                loop.remove_reader(self._fd)
        try:
            data = os.read(self._fd, _CHUNK)
        except OSError:  # the terminal is gone, or was never there
            data = b""
        self._rest += data
        self._ended = not data


def _text(line: bytes | bytearray) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")


@contextlib.contextmanager
def own_stdin() -> Iterator[int]:
    """Have stdin alone: who else reads it meanwhile, a tool or a program that it starts, finds its end.

    Yields:
        The number of the file that is it.

    Raises:
        ConfigError: If there is no stdin.
    """
    if sys.stdin is None:
        raise ConfigError("stdin is closed, so nobody can speak on it")
    number = sys.stdin.fileno()
    kept, nothing = os.dup(number), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, number)
    os.close(nothing)
    try:
        yield kept
    finally:
        os.dup2(kept, number)
        os.close(kept)


def read_all() -> str:
    """Read stdin to its end, as the text of a task.

    Raises:
        ConfigError: If there is no stdin, or it is no UTF-8 text.
    """
    if sys.stdin is None:
        raise ConfigError("stdin is closed, so no task can be read from it")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError("what came on stdin is no UTF-8 text") from error

"""Reads the pipes into which children write, all of them in one thread.

Comes in: the reading ends of pipes, each with a function that takes its text. Goes out: calls of these functions
with decoded text, in the order in which it was written. The thread reads at most `CHUNK` bytes of a pipe at a
time and keeps none of them, so a child that writes without end takes no memory and no other pipe's turn.
"""

from __future__ import annotations

import codecs
import logging
import os
import selectors
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

if sys.platform != "win32":
    from fcntl import ioctl
    from termios import FIONREAD

T = TypeVar("T")
Take = Callable[[str], object]

log = logging.getLogger(__name__)

CHUNK = 64 * 1024
"""Bytes read at once: what a pipe holds on Linux (pipe(7)), so a drain ends even where a child goes on writing."""
_NOTHING = b"\0" * 4


class Pipe:
    """A pipe's reading end. Only the reader's thread may call what is not marked otherwise.

    Args:
        fd: The descriptor; it is closed at the pipe's end.
        take: Gets each text. What it raises is logged.
    """

    def __init__(self, fd: int, take: Take) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._take = take
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._busy = False
        self.ended = False
        """Whether nobody can write to it any more and all was read."""

    def has_more(self) -> bool:
        """Whether text has been written that was not taken yet. May be called in any thread."""
        try:
            return not self.ended and (ioctl(self.fd, FIONREAD, _NOTHING) != _NOTHING or self._busy)
        except OSError:
            return False

    def read(self) -> int:
        """Read once.

        Returns:
            How many bytes were read; 0 where there are none now, or no more at all.
        """
        if self.ended:
            return 0
        self._busy = True
        try:
            data = os.read(self.fd, CHUNK)
            self.ended = not data
        except BlockingIOError:
            return 0
        except OSError:
            # A pseudo-terminal that nobody holds any more ends so.
            data, self.ended = b"", True
        else:
            self._hand_on(self._decode(data, final=self.ended))
        finally:
            self._busy = False
        return len(data)

    def drain(self) -> None:
        """Take all that has been written until now."""
        left = CHUNK
        while left > 0 and (count := self.read()):
            left -= count

    def _hand_on(self, text: str) -> None:
        try:
            if text:
                self._take(text)
        except Exception:
            log.exception("the output of a child cannot be taken")


class Reader:
    """The thread that reads."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._jobs: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._thread = threading.Thread(target=self._serve, name="children's output", daemon=True)
        self._starting = threading.Lock()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)

    def start(self) -> None:
        """Start the thread, where it does not run yet."""
        with self._starting:
            if self._thread.ident is None:
                self._thread.start()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in the thread and wait for it; an interrupt ends the wait, and not the function.

        Args:
            function: What to run. Must not wait for anything.

        Returns:
            What it returns. What it raises is raised.
        """
        if threading.current_thread() is self._thread:
            return function()
        return self.post(function).result()

    def post(self, function: Callable[[], T]) -> Future[T]:
        """As `call`, without waiting."""
        future: Future[T] = Future()
        self._jobs.append((function, future))
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"\0")
        return future

    def add(self, pipe: Pipe) -> None:
        """Read a pipe until its end. To be called in the thread."""
        self._selector.register(pipe.fd, selectors.EVENT_READ, pipe)

    def drain(self, *pipes: Pipe) -> None:
        """Wait until all is taken that has been written to these pipes until now. May be called in any thread.

        Args:
            *pipes: The pipes.
        """
        for pipe in pipes:
            if pipe.has_more() and threading.current_thread() is not self._thread:
                self.call(partial(self.settle, *pipes))
                return

    def settle(self, *pipes: Pipe) -> None:
        """As `drain`, and take note of an end. To be called in the thread."""
        for pipe in pipes:
            self._finish_if_ended(pipe, pipe.drain)

    def descriptors(self) -> list[int]:
        """What a forked copy of the process has to close."""
        fds = [key.fd for key in self._selector.get_map().values() if key.data is not None]
        return [self._wake_read, self._wake_write, *fds]

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    self._run_jobs()
                else:
                    self._finish_if_ended(key.data, key.data.read)

    def _run_jobs(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake_read, CHUNK)
        while self._jobs:
            function, future = self._jobs.popleft()
            try:
                future.set_result(function())
            except BaseException as exception:
                future.set_exception(exception)

    def _finish_if_ended(self, pipe: Pipe, read: Callable[[], Any]) -> None:
        was_open = not pipe.ended
        read()
        if was_open and pipe.ended:
            self._selector.unregister(pipe.fd)
            os.close(pipe.fd)


READER = Reader()
"""The process's one."""

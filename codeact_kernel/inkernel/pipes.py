"""Reads the pipes into which children write, all of them in one thread.

Comes in: the reading ends of pipes, each with a function that takes its text. Goes out: calls of these functions
with decoded text, in the order in which it was written. The thread reads at most `CHUNK` bytes of a pipe at a
time, keeps none of them, and leaves a pipe alone while there is no room for its text: then its child waits. So one
that writes without end takes no memory and no other pipe's turn.
"""

from __future__ import annotations

import codecs
import logging
import os
import selectors
import sys
import threading
import time
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
HasRoom = Callable[[float], bool]

log = logging.getLogger(__name__)

CHUNK = 64 * 1024
"""Bytes read at once: what a pipe holds on Linux (pipe(7)), so a drain ends even where a child goes on writing."""
POLL = 0.01
"""Seconds between two looks whether there is room again."""
_NOTHING = b"\0" * 4


class Pipe:
    """A pipe's reading end. Only the reader's thread may call what is not marked otherwise.

    Args:
        fd: The descriptor; it is closed at the pipe's end.
        take: Gets each text. What it raises is logged.
        has_room: Says whether there is room for more; gets the time since when it was asked in vain.
    """

    def __init__(self, fd: int, take: Take, has_room: HasRoom = lambda since: True) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._take = take
        self.has_room = has_room
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
        self._jobs: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._full: dict[Pipe, float] = {}
        """The pipes for whose text there is no room, and since when."""
        self._ask_at = 0.0
        self.thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def start(self) -> None:
        """Start the thread, where it does not run yet.

        There is nothing before: kernels that are forked share no file, and could start no thread that is older.
        """
        with self._starting:
            if self.thread is None:
                self._selector = selectors.DefaultSelector()
                self._wake_read, self._wake_write = os.pipe()
                os.set_blocking(self._wake_read, False)
                os.set_blocking(self._wake_write, False)
                self._selector.register(self._wake_read, selectors.EVENT_READ)
                self.thread = threading.Thread(target=self._serve, name="children's output", daemon=True)
                self.thread.start()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in the thread and wait for it; an interrupt ends the wait, and not the function.

        Args:
            function: What to run. Must not wait for anything.

        Returns:
            What it returns. What it raises is raised.
        """
        if threading.current_thread() is self.thread:
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
            if pipe.has_more() and threading.current_thread() is not self.thread:
                self.call(partial(self.settle, *pipes))
                return

    def settle(self, *pipes: Pipe) -> None:
        """As `drain`, and take note of an end. To be called in the thread."""
        for pipe in pipes:
            self._finish_if_ended(pipe, pipe.drain)

    def descriptors(self) -> list[int]:
        """What a forked copy of the process has to close."""
        fds = [key.fd for key in self._selector.get_map().values() if key.data is not None]
        return [self._wake_read, self._wake_write, *fds, *(pipe.fd for pipe in self._full)]

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select(POLL if self._full else None):
                if key.data is None:
                    self._run_jobs()
                elif key.data.ended or key.data.has_room(time.monotonic()):
                    self._finish_if_ended(key.data, key.data.read)
                else:
                    self._selector.unregister(key.data.fd)
                    self._full[key.data] = time.monotonic()
            if self._full and time.monotonic() >= self._ask_at:
                self._ask_for_room()

    def _ask_for_room(self) -> None:
        for pipe, since in list(self._full.items()):
            if pipe.has_room(since):
                del self._full[pipe]
                self.add(pipe)
        self._ask_at = time.monotonic() + POLL

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
            if self._full.pop(pipe, None) is None:
                self._selector.unregister(pipe.fd)
            os.close(pipe.fd)


READER = Reader()
"""The process's one."""

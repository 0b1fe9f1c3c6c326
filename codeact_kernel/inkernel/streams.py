"""stdout and stderr of the kernel, shared by blocks that run side by side.

Comes in: what code in the kernel writes. Goes out: each text to the outbox of the request whose code wrote it.
Text of nobody (libraries' own threads, C code that writes to the file descriptor) belongs to the only request
that runs; while there are several, or none, it is published as nobody's. In a forked copy of the process a stream
writes to the copy's own descriptor.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ipykernel.iostream import OutStream

from codeact_kernel.inkernel.capture import stream_target
from codeact_kernel.inkernel.forked import LineWriter, flush_c, is_copy
from codeact_kernel.inkernel.pipes import READER, Pipe
from codeact_kernel.inkernel.request import Request, current

ROOM = 2**20
"""Bytes that the pipe behind the file descriptor holds: C code that prints without letting go of the interpreter
must find room for all of it, because nobody can read meanwhile."""


def _nobody() -> Request | None:
    return None


class BlockStream(OutStream):  # type: ignore[misc]
    """One of the two streams, as `sys.stdout` or `sys.stderr`."""

    only_request: Callable[[], Request | None] = staticmethod(_nobody)
    """Gives the only request that runs, or None."""
    _pipes: tuple[Pipe, ...] = ()
    _copy: LineWriter | None = None

    def write(self, string: str) -> int | None:
        """Write text for the request whose code calls.

        Args:
            string: The text.

        Returns:
            How many characters were written.

        Raises:
            TypeError: If it is no text.
        """
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string)}")
        if is_copy():
            return self._in_copy().write(string)
        request = current.get()
        if request is None:
            return self._write_of_nobody(string)
        if request.captures:
            target = stream_target(request, self.name, self)
            if target is not None:
                target.write(string)
                return len(string)
        request.outbox.write(self.name, string)
        return len(string)

    def flush(self) -> None:
        """Do nothing for a request: its outbox sends by itself, in order, and nobody has to wait."""
        if is_copy():
            self._in_copy().flush()
        elif current.get() is None:
            super().flush()

    def fileno(self) -> int:
        """The stream's own descriptor: a child that is given it writes for its block."""
        if self._should_watch:
            return int(self._original_stdstream_fd)
        return int(super().fileno())

    @classmethod
    def settle(cls) -> None:
        """Wait until all that C code has written until now is published."""
        flush_c()
        READER.drain(*cls._pipes)

    def _watch_pipe_fd(self) -> None:
        # ipykernel calls this in a thread of the stream's own. One thread reads all pipes here, in chunks that
        # split no character, and without a second copy into the process's log.
        with suppress(ImportError, OSError):
            from fcntl import F_SETPIPE_SZ, fcntl

            fcntl(self._fid, F_SETPIPE_SZ, ROOM)
        pipe = Pipe(self._fid, self._write_from_descriptor)
        BlockStream._pipes += (pipe,)
        READER.start()
        READER.call(lambda: READER.add(pipe))

    def _write_from_descriptor(self, string: str) -> None:
        # What comes after the end of watching is only ipykernel's own word to end it.
        if self._should_watch:
            self._write_of_nobody(string)

    def _write_of_nobody(self, string: str) -> int:
        request = self.only_request()
        if request is not None:
            request.outbox.write(self.name, string)
            return len(string)
        if self._parent_header.get(None) is not None:
            # A handler of ipykernel's, of a widget's message say: it has set what it works for.
            return int(super().write(string) or 0)
        token = self._parent_header.set({})
        try:
            return int(super().write(string) or 0)
        finally:
            self._parent_header.reset(token)

    def _in_copy(self) -> LineWriter:
        if self._copy is None:
            self._copy = LineWriter(1 if self.name == "stdout" else 2)
        return self._copy

"""stdout and stderr of the kernel, shared by blocks that run side by side.

Comes in: what code in the kernel writes. Goes out: each text to the outbox of the request whose code wrote it;
text of nobody (libraries' own threads, C code that writes to the file descriptor) to ipykernel's own stream.
"""

from __future__ import annotations

import threading
from typing import Any

from ipykernel.iostream import OutStream

from codeact_kernel.inkernel.request import current


class BlockStream(OutStream):  # type: ignore[misc]
    """One of the two streams, as `sys.stdout` or `sys.stderr`."""

    def write(self, string: str) -> int | None:
        """Write text for the request whose code calls.

        Args:
            string: The text.

        Returns:
            How many characters were written.

        Raises:
            TypeError: If it is no text.
        """
        request = current.get()
        if request is None or not self._is_master_process():
            written: int | None = super().write(string)
            return written
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string)}")
        request.outbox.write(self.name, string)
        return len(string)

    def flush(self) -> None:
        """Do nothing for a request: its outbox sends by itself, in order, and nobody has to wait."""
        request = current.get()
        if request is None or not self._is_master_process():
            super().flush()


_start = threading.Thread.start


def _start_as_current(self: threading.Thread) -> None:
    request = current.get()
    if request is not None:
        run = self.run

        def run_as_request(*args: Any, **kwargs: Any) -> None:
            current.set(request)
            run(*args, **kwargs)

        self.run = run_as_request  # type: ignore[method-assign]
    _start(self)


def adopt_threads() -> None:
    """From now on a thread prints and displays as the request whose code started it."""
    threading.Thread.start = _start_as_current  # type: ignore[method-assign]

"""stdout and stderr of the kernel, shared by blocks that run side by side.

Comes in: what code in the kernel writes. Goes out: each text to the outbox of the request whose code wrote it;
text of nobody (libraries' own threads, C code that writes to the file descriptor) to ipykernel's own stream.
"""

from __future__ import annotations

from ipykernel.iostream import OutStream

from codeact_kernel.inkernel.capture import stream_target
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
        if request.captures:
            target = stream_target(request, self.name, self)
            if target is not None:
                target.write(string)
                return len(string)
        request.outbox.write(self.name, string)
        return len(string)

    def flush(self) -> None:
        """Do nothing for a request: its outbox sends by itself, in order, and nobody has to wait."""
        request = current.get()
        if request is None or not self._is_master_process():
            super().flush()

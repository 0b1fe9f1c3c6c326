"""A result that was too large to travel at once, as code has it.

Comes in: what the host says of it. Goes out: `LargeResult`, which loads it when code wants it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from codeact_kernel.inkernel import wire


class LargeResult:
    """A result that is still with the host: `.load()` gives it, `.bytes` and `.what` say what that would be.

    Args:
        about: {"number", "file", "bytes", "what"}.
        page: Reads a page of it: (number, first byte) to bytes.
    """

    def __init__(self, about: dict[str, Any], page: Callable[[int, int], bytes]) -> None:
        self._number = about["number"]
        self._page = page
        self.bytes: int = about["bytes"]
        """Its size on the way, in bytes."""
        self.what: str = about["what"]
        """What it is: "list of length 200000"."""
        self.file: str = about["file"]
        """Where it lies, on the host's machine, as JSON."""

    def load(self) -> Any:
        """Fetch it.

        Returns:
            What the tool has returned.

        Raises:
            ToolError: If the host does not keep it any more.
        """
        data = bytearray()
        while len(data) < self.bytes:
            data += self._page(self._number, len(data))
        return wire.unpack(json.loads(data))

    def _refuse(self, *_: Any) -> Any:
        raise TypeError(f"{self!r}: it has not come yet")

    __getitem__ = __iter__ = __len__ = __contains__ = _refuse

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name if name.startswith("_") else f"{self!r}: it has no {name!r} yet")

    def __repr__(self) -> str:
        return f"<large result, {self.what}, {self.bytes / 1e6:.1f} MB: it.load() gives it>"

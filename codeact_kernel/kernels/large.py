"""Results of calls that are too large to travel as one message: in files, from which code takes them page by page.

Comes in: a packed value. Goes out: what the kernel makes a handle of, and later the pages of the file. A channel
carries what all blocks have to say: one result must not hold that up.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

from codeact_kernel.errors import ToolError
from codeact_kernel.inkernel import wire

PAGE = 2 * 2**20
"""Bytes of a page. It is on its way for about 30 ms, measured on two cores."""
KEPT = 20
"""Files that are kept; the oldest goes when another one comes."""


class Large:
    """The large results of one kernel.

    Args:
        folder: Where the files lie; whoever owns it removes it.
        most: Bytes up to which a result travels at once.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self._folder = folder
        self._most = most
        # Those of an earlier host, in a kernel that has outlived it: code there may have handles to them.
        there = ((file.stem.partition("-")[2], file) for file in folder.glob("result-*.json"))
        found = sorted((int(number), file) for number, file in there if number.isdecimal())
        self._files: OrderedDict[int, Path] = OrderedDict(found)
        self._latest = next(reversed(self._files), 0)

    def hold(self, packed: Any, what: str) -> dict[str, Any] | None:
        """Put a result into a file, if it is large.

        Args:
            packed: What `wire.pack` made of it.
            what: What it is, in words.

        Returns:
            {"number", "file", "bytes", "what"}; None for one that can travel.
        """
        if wire.size_of(packed) <= self._most:
            return None
        data = wire.to_json(packed)
        if len(data) <= self._most:
            return None
        self._latest += 1
        file = self._folder / f"result-{self._latest}.json"
        file.write_bytes(data)
        self._files[self._latest] = file
        while len(self._files) > KEPT:
            self._files.popitem(last=False)[1].unlink(missing_ok=True)
        return {"number": self._latest, "file": str(file), "bytes": len(data), "what": what}

    def page(self, number: int, start: int) -> bytes:
        """Read a page of a file.

        Args:
            number: Which one.
            start: Where it begins, in bytes.

        Raises:
            ToolError: If the file is not kept any more.
        """
        file = self._files.get(number)
        if file is None:
            raise ToolError(
                f"this result is not kept any more: the latest {KEPT} large ones are; call the tool again"
            )
        with file.open("rb") as opened:
            opened.seek(start)
            return opened.read(PAGE)

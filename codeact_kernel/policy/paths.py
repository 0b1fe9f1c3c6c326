"""Paths as rules see them: where they really lead.

Comes in: paths as a model writes them, patterns as a user writes them. Goes out: absolute paths without symlinks and
`..`, resolved as the file tools of the workspace do it; and whether a pattern means one.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path


class Places:
    """The paths of a workspace.

    Args:
        workspace: The folder from which relative paths count.
    """

    def __init__(self, workspace: Path) -> None:
        self.root = os.path.realpath(workspace)

    def resolve(self, path: str, base: str | None = None) -> str:
        """Where a path leads, whether or not something is there.

        Args:
            path: The path; a relative one counts from the base.
            base: A folder, resolved; None for the workspace.

        Raises:
            ValueError: If it is no path.
        """
        return os.path.realpath(os.path.join(base or self.root, path))  # noqa: PTH118

    def matches(self, pattern: str, real: str, *, outside: bool) -> bool:
        """Whether a pattern means a path, or a folder above it.

        Args:
            pattern: With `*`, `?` and `**`. With a slash in it, it counts from the workspace, or is absolute or begins
                with `~/`; without, it means a name at any depth.
            real: The path, resolved.
            outside: Whether a bare name also means what lies outside of the workspace.
        """
        wanted = os.path.expanduser(pattern)  # noqa: PTH111 - a pattern is no path
        if wanted.startswith("/"):
            return any(map(_pattern(wanted).fullmatch, _upwards(real)))
        inside = real == self.root or real.startswith(self.root.rstrip("/") + "/")
        if not inside and not (outside and "/" not in wanted):
            return False
        seen = real[len(self.root.rstrip("/")) + 1 :] or "." if inside else real
        if "/" in wanted or wanted == "**":
            return any(map(_pattern(wanted.removeprefix("./")).fullmatch, _upwards(seen)))
        return any(map(_pattern(wanted).fullmatch, seen.strip("/").split("/")))


def _upwards(path: str) -> list[str]:
    """A path and the folders above it."""
    parts = path.split("/")
    return ["/".join(parts[:end]) or "/" for end in range(len(parts), 0, -1)]


@functools.cache
def _pattern(pattern: str) -> re.Pattern[str]:
    trailing = pattern.endswith("/**")
    body = pattern.removesuffix("/**").rstrip("/") if trailing else pattern.rstrip("/") or "/"
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", body)
    meant = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    text = "".join(meant.get(piece, re.escape(piece)) for piece in pieces)
    return re.compile(text + ("(?:/.*)?" if trailing else ""), re.DOTALL)

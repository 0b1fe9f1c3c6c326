"""Exact replacing in a text, and what it changed.

Comes in: a file's text, and what shall stand where. Goes out: the text anew, and a diff.
"""

from __future__ import annotations

import difflib
import re

from codeact_kernel.errors import ToolError

SHOWN = 20_000
"""Characters of a diff that come back. Ours: more than a model reads of one result."""
_COMPARED = 2000
"""Lines that are compared with each other; comparing takes time that grows with their square."""
_CONTEXT = 3
"""Unchanged lines around a change; what diff -u shows."""


def replaced(text: str, old: str, new: str, every: bool, path: str) -> str:
    r"""Replace a text that has to be there exactly once.

    Args:
        text: The file's text, with its own line ends.
        old: What is replaced; its line ends match "\n" and "\r\n".
        new: What stands there instead, with the line ends of what it replaces.
        every: Replace each occurrence.
        path: For errors.

    Returns:
        The text with the replacement.

    Raises:
        ToolError: If it is not there, or more than once and not each shall be replaced.
    """
    if not isinstance(old, str) or not isinstance(new, str) or not old:
        raise ToolError("old and new are texts, and old is not empty; write_file writes a whole file")
    pattern = re.compile("\r?\n".join(map(re.escape, old.replace("\r\n", "\n").split("\n"))))
    found = [match.span() for match in pattern.finditer(text)]
    if not found:
        raise ToolError(
            f"old is not in {path!r}; read_file({path!r}) shows the text as it is, white space too"
        )
    if len(found) > 1 and not every:
        lines = ", ".join(str(text.count("\n", 0, start) + 1) for start, _ in found[:5])
        raise ToolError(
            f"old is in {path!r} {len(found)} times (lines {lines}{', …' if len(found) > 5 else ''}); "
            "pass more of the lines around it, or replace_all=True"
        )
    pieces, at = list[str](), 0
    for start, end in found:
        pieces += [text[at:start], _with_ends_of(text[start:end], text, new)]
        at = end
    return "".join([*pieces, text[at:]])


def difference(before: str, after: str, path: str) -> str:
    """A unified diff of two texts.

    Args:
        before: The one.
        after: The other.
        path: The file's name.

    Returns:
        The diff, cut with a word about it where it is long.
    """
    old, new = _lines(before), _lines(after)
    same = _alike(old, new)
    tail = _alike(old[same:][::-1], new[same:][::-1])
    first, behind = max(0, same - _CONTEXT), max(0, tail - _CONTEXT)
    a, b = old[first : len(old) - behind], new[first : len(new) - behind]
    if len(a) + len(b) > _COMPARED:
        return f"{path}: lines {same + 1} to {len(old) - tail} are now lines {same + 1} to {len(new) - tail}"
    lines = difflib.unified_diff(a, b, path, path, lineterm="", n=_CONTEXT)
    diff = "\n".join(
        re.sub(r"(?<=[-+])\d+", lambda at: str(int(at[0]) + first), line) if line.startswith("@@") else line
        for line in lines
    )
    if not diff:
        return f"{path}: only line ends are different"
    return diff if len(diff) <= SHOWN else f"{diff[:SHOWN]}\n[... {len(diff) - SHOWN} characters left out]"


def _with_ends_of(piece: str, text: str, new: str) -> str:
    new = new.replace("\r\n", "\n")
    at = piece if "\n" in piece else text
    end = at.find("\n")
    return new.replace("\n", "\r\n") if end > 0 and at[end - 1] == "\r" else new


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _alike(one: list[str], other: list[str]) -> int:
    """How many lines two texts begin with that are the same."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count

"""Payloads: what stands between two tags, and what of it is the block's.

Comes in: the characters between an opening and a closing tag. Goes out: the code or the task.
Without a boundary three things are made regular: line ends, an indentation of the whole, and a fence round
the whole. With a boundary a payload is what was written, character by character.
"""

from __future__ import annotations

import re

BLANK = " \t\r\n"
"""White space of the grammar. Other spaces and separators of Unicode are text."""
SPACE = " \t\r"
"""What may stand before a tag on its line."""

_FENCE = re.compile(r"```(?:python|py)?[ \t]*\n(?:(.*)\n)?```[ \t]*", re.DOTALL)


def clean(kind: str, raw: str) -> str:
    """Make a payload regular.

    Args:
        kind: "run_code" or "run_agent"; only code is taken out of a fence.
        raw: All characters from behind the opening tag's line to the closing tag.

    Returns:
        The payload, without the line end before the closing tag.
    """
    text = dedent(raw.replace("\r\n", "\n").removesuffix("\n"))
    if kind == "run_code" and (fence := _FENCE.fullmatch(text.strip("\n"))):
        return dedent(fence[1] or "")
    return text


def dedent(text: str) -> str:
    """Take away the indentation that all lines share, text inside strings included.

    Args:
        text: Lines that end in a line feed.

    Returns:
        The text, unchanged where a line starts at the margin. Lines of white space do not count.
    """
    lines = text.split("\n")
    margin: str | None = None
    for line in lines:
        if not line.strip(BLANK):
            continue
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        margin = indent if margin is None else margin
        while not indent.startswith(margin):
            margin = margin[:-1]
        if not margin:
            return text
    return "\n".join(line[len(margin) :] for line in lines) if margin else text

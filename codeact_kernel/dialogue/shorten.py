"""Text of a block, made fit to be read by a model.

Comes in: a text. Goes out: of a long one its head and its tail, with an exact count of what is between.
"""

from __future__ import annotations

from collections.abc import Callable

from codeact_kernel.blocks import LeftOut

Count = Callable[[str], int]
"""How many tokens a text is."""

_WIDEST = 8
"""Characters a token, at most, of a text that is counted whole; a longer one is long in any case. English and
code have 3 to 4 characters a token."""


Gap = tuple[int, LeftOut]
"""What is not here in the middle of a text, and how much of the text stands before it."""


def shorten(text: str, limit: int, count: Count, handle: str | None, gap: Gap | None = None) -> str:
    """Keep the head and the tail of a long text.

    Args:
        text: The text.
        limit: Tokens that may be kept.
        count: How many tokens a text is.
        handle: Code that gives the model all of it; None where only the record has it.
        gap: What was left out of it before.

    Returns:
        The text, or its head, a line that says exactly how much is left out there, and its tail. It is cut
        between lines where lines are short enough for that.
    """
    widest, half = limit * _WIDEST, limit // 2
    if gap is None and len(text) <= widest and count(text) <= limit:
        return text
    begin, end = _cut(text, widest, half, count)
    if gap is None and begin >= end:
        return text
    if gap is not None:
        begin, end = min(begin, gap[0]), max(end, gap[0])
    left = LeftOut(end - begin, text.count("\n", begin, end)) + (gap[1] if gap else LeftOut())
    note = f"[{left} left out here: {handle or 'the record'} has all of it]\n"
    return text[:begin] + ("\n" if begin and text[begin - 1] != "\n" else "") + note + text[end:]


def _cut(text: str, widest: int, half: int, count: Count) -> tuple[int, int]:
    """Where the middle of a long text begins and ends."""
    kept = _most(min(len(text), widest), lambda size: count(text[:size]) <= half)
    line = text.rfind("\n", 0, kept) + 1
    begin = line if line > kept // 2 else kept
    kept = _most(min(len(text) - begin, widest), lambda size: count(text[len(text) - size :]) <= half)
    end = len(text) - kept
    line = text.find("\n", end) + 1
    return begin, line if 0 < line < end + kept // 2 else end


def _most(high: int, fits: Callable[[int], bool]) -> int:
    """The largest size that fits, to a few characters."""
    low = 0
    while high - low > 4:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def one_line(text: str, limit: int) -> str:
    """Put a text on one line.

    Args:
        text: The text.
        limit: Characters that may be kept.
    """
    line = " ".join(text[: 4 * limit].split())
    if len(line) <= limit and len(text) <= 4 * limit:
        return line
    return f"{line[:limit]}… ({len(text):,} characters)"

"""Which blocks of a run mattered: those that what came later, or the answer, was made of.

Comes in: the blocks that ran, in order, with what they do; the answer. Goes out: those without which it would not have
come to that. It leaves out what is known to have done nothing else, and nothing besides.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from dataclasses import dataclass

from codeact_kernel.agent.recorded.effects import Doings

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d]{4,}")
"""A figure, or a word of four letters and more."""
_NAME = re.compile(r"[^\W\d]\w*")
_EARLIER = re.compile(r"_{1,3}|_\d+|_i+\d*|In|Out|_[iod]h")
"""IPython's names for what earlier blocks have shown."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A block that has run."""

    does: Doings
    output: str
    """What it has put out, as text."""
    failed: bool = False
    """Whether an error has ended it; what it had made by then is there."""


def mattered(ran: Sequence[Ran], task: str, answer: str | None) -> list[int]:
    """Which blocks mattered.

    Args:
        ran: The blocks, in the order in which they began.
        task: What was asked.
        answer: What was answered; None where nothing was, so that all that was shown counts.

    Returns:
        Their places, in order.
    """
    if any(block.does.hides or any(map(_EARLIER.fullmatch, block.does.reads)) for block in ran):
        return [place for place, block in enumerate(ran) if not block.failed]
    said = _tokens(answer or "") - _tokens(task)
    shown = {place for place, block in enumerate(ran) if not block.failed and _tokens(block.output) & said}
    if not shown:  # nothing tells what the answer goes by
        shown = {place for place, block in enumerate(ran) if not block.failed and block.output.strip()}
    later = {name for block in ran for name in block.does.later}
    good = [block.does for block in ran if not block.failed]
    needed = later | {name for does in good for name in (does.all_made if answer is None else does.defines)}
    needed |= set(_NAME.findall(answer or ""))
    kept = []
    for place, block in reversed(list(enumerate(ran))):
        does = block.does
        is_used = bool(does.all_made & needed)
        if is_used if block.failed else is_used or does.acts or place in shown:
            kept.append(place)
            if not block.failed:
                needed -= does.makes - later
            needed |= does.reads | does.mentions | does.changes
    return kept[::-1]


def lacking(ran: Sequence[Ran]) -> list[str]:
    """The names that blocks read and none of them makes.

    Args:
        ran: Those that mattered.
    """
    there, missing = set(dir(builtins)), set[str]()
    for block in ran:
        missing |= block.does.reads - there
        there |= block.does.all_made
    missing |= {name for block in ran for name in block.does.later} - there
    return sorted(missing)


def _tokens(text: str) -> set[str]:
    return {token.lower() for token in _TOKEN.findall(text)}

"""Which entries the model sees, and when it is asked to make them fewer.

Comes in: the transcript's entries, and their size in tokens. Goes out: the entries from the last compaction
on, and reminders that grow firmer. The context only ever grows at its end, so that an
endpoint's cache of the prompt keeps its worth; only a compaction begins it anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from codeact_kernel.events import Entry, Knowledge, Report

REMIND_PAST = 16_000
"""Tokens past which the model is asked to compact, where half of its window is not less."""
LONGEST_RESERVE = 4096
"""Tokens that are kept free in a large window, for a reply, or for what the model writes down where it is asked to; in
a small one it is a quarter."""
FIRMEST = 3
"""How firm a reminder gets."""
NEARLY = 0.75
"""The part of the window past which the first reminder is the firmest."""

_HOW = (
    'call self.compact_knowledge("…") in a run_code block, with all that you still need: the task, what is '
    "done, what you found, what comes next. It replaces all that came before it, except the system prompt; "
    "variables, running blocks and agents stay."
)


def visible(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries that the model sees: from the last `Knowledge` on, or all.

    Args:
        entries: The transcript's entries, oldest first.
    """
    for index in range(len(entries) - 1, -1, -1):
        if isinstance(entries[index], Knowledge):
            return entries[index:]
    return entries


def threshold_of(window: int | None) -> int:
    """The size past which the model is reminded: 16,000 tokens, or half of its window if that is less.

    Args:
        window: The model's window in tokens, or None where it is not known.
    """
    return REMIND_PAST if window is None else min(REMIND_PAST, window // 2)


def reserve_of(window: int) -> int:
    """The tokens of a window that are kept free.

    Args:
        window: The model's window.
    """
    return min(LONGEST_RESERVE, window // 4)


def is_full(tokens: int, window: int | None) -> bool:
    """Whether the next reply might not fit, so that the runtime has to compact by itself.

    Args:
        tokens: The prompt's size.
        window: The model's window, or None where it is not known; then only the endpoint can tell.
    """
    return window is not None and tokens > window - reserve_of(window)


def reminder(tokens: int, window: int | None, given: int = 0) -> str:
    """Word a reminder.

    Args:
        tokens: The prompt's size.
        window: The model's window, or None where it is not known.
        given: How many were given since the context was small.
    """
    nearly = window is not None and tokens >= window * NEARLY
    size = f"about {tokens:,} of {window:,} tokens" if nearly else f"about {tokens:,} tokens"
    match FIRMEST if nearly and given < FIRMEST else given + 1:
        case 1:
            return f"Your context is growing: {size}. At the next good moment, {_HOW}"
        case 2:
            return f"Your context has grown to {size}, and each turn reads it all. Now {_HOW}"
        case 3:
            return f"Your context is too large: {size}. In your next reply, before anything else, {_HOW}"
        case number:
            return (
                f"Reminder {number}: {size}, and each turn reads them all. Do nothing else before you have called "
                'self.compact_knowledge("…").'
            )


class Reminders:
    """Decides when a reminder is due: with each turn past the threshold, and each firmer than the one before."""

    def __init__(self) -> None:
        self._given = 0

    def due(self, tokens: int, window: int | None, threshold: int | None = None) -> Report | None:
        """The reminder to append to the next observation, if one is due.

        Args:
            tokens: The prompt's size.
            window: The model's window, or None where it is not known.
            threshold: The size past which the model is reminded; None takes `threshold_of(window)`.
        """
        if tokens < (threshold_of(window) if threshold is None else threshold):
            self._given = 0
            return None
        self._given += 1
        return Report("reminder", reminder(tokens, window, self._given - 1))

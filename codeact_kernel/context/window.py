"""Which entries the model sees, and when it is asked to make them fewer.

Comes in: the transcript's entries, and their size in tokens. Goes out: the entries from the last compaction
on, and reminders that come seldom and grow firmer. The context only ever grows at its end, so that an
endpoint's cache of the prompt keeps its worth; only a compaction begins it anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from codeact_kernel.events import Entry, Knowledge, Report

REMIND_PAST = 16_000
"""Tokens past which the model is asked to compact, where half of its window is not less."""
LONGEST_RESERVE = 4096
"""Tokens that are kept free for a reply in a large window; in a small one it is an eighth."""

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


def is_full(tokens: int, window: int | None) -> bool:
    """Whether the next reply might not fit, so that the runtime has to compact by itself.

    Args:
        tokens: The prompt's size.
        window: The model's window, or None where it is not known; then only the endpoint can tell.
    """
    return window is not None and tokens > window - min(LONGEST_RESERVE, window // 8)


def _firmness(tokens: int, threshold: int, window: int | None) -> int:
    """0 for no reminder, up to 3 for the firmest."""
    if tokens < threshold:
        return 0
    if window is not None and tokens >= window * 0.75:
        return 3
    return 2 if tokens >= threshold * 1.5 else 1


def reminder(tokens: int, threshold: int, window: int | None) -> str | None:
    """Word a reminder.

    Args:
        tokens: The prompt's size.
        threshold: The size past which the model is reminded.
        window: The model's window, or None where it is not known.

    Returns:
        The text, or None below the threshold.
    """
    match _firmness(tokens, threshold, window):
        case 1:
            return f"Your context is growing: about {tokens:,} tokens. At the next good moment, {_HOW}"
        case 2:
            return (
                f"Your context has grown to about {tokens:,} tokens, and each turn reads it all. Now {_HOW}"
            )
        case 3:
            return (
                f"Your context is nearly full: about {tokens:,} of {window:,} tokens. In your next reply, "
                f"{_HOW} Otherwise the runtime cuts it down by itself, and what you know is lost."
            )
        case _:
            return None


class Reminders:
    """Decides when a reminder is due.

    The first comes past the threshold, the next ones each time the context has grown by a quarter of the
    threshold, and whenever the reminder becomes firmer.
    """

    def __init__(self) -> None:
        self._told_at: int | None = None
        self._told_firmness = 0

    def due(self, tokens: int, window: int | None, threshold: int | None = None) -> Report | None:
        """The reminder to append to the next observation, if one is due.

        Args:
            tokens: The prompt's size.
            window: The model's window, or None where it is not known.
            threshold: The size past which the model is reminded; None takes `threshold_of(window)`.
        """
        bound = threshold_of(window) if threshold is None else threshold
        text = reminder(tokens, bound, window)
        if text is None:
            self._told_at, self._told_firmness = None, 0
            return None
        firmness = _firmness(tokens, bound, window)
        grown = self._told_at is None or tokens - self._told_at >= bound / 4
        if not grown and firmness <= self._told_firmness:
            return None
        self._told_at, self._told_firmness = tokens, firmness
        return Report("reminder", text)

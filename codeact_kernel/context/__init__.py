"""What of the transcript the model gets to see, and how much that is.

Comes in: entries of the transcript, and figures about the model. Goes out: the entries that are still in the
window, their size in tokens, reminders to compact, and compactions. Nothing here asks a model or a kernel.
"""

from __future__ import annotations

from codeact_kernel.context.compaction import (
    Alive,
    AliveAgent,
    AliveBlock,
    AliveProcess,
    AliveVariable,
    compact,
    compact_by_force,
    inventory,
)
from codeact_kernel.context.tokens import Counter
from codeact_kernel.context.window import Reminders, is_full, reminder, threshold_of, visible

__all__ = [
    "Alive",
    "AliveAgent",
    "AliveBlock",
    "AliveProcess",
    "AliveVariable",
    "Counter",
    "Reminders",
    "compact",
    "compact_by_force",
    "inventory",
    "is_full",
    "reminder",
    "threshold_of",
    "visible",
]

"""What of the transcript the model gets to see, and how much that is.

Comes in: entries of the transcript, and figures about the model. Goes out: the entries that are still in the
window, their size in tokens, reminders to compact, and compactions. Nothing here asks a model or a kernel.
"""

from __future__ import annotations

from codeact_kernel.context.alive import (
    Alive,
    AliveAgent,
    AliveBlock,
    AliveFile,
    AliveProcess,
    AliveVariable,
    inventory,
)
from codeact_kernel.context.compaction import (
    compact,
    compact_by_force,
    summary_request,
    told,
    written_down,
)
from codeact_kernel.context.tokens import Counter
from codeact_kernel.context.window import (
    Reminders,
    is_full,
    reminder,
    reserve_of,
    threshold_of,
    visible,
)

__all__ = [
    "Alive",
    "AliveAgent",
    "AliveBlock",
    "AliveFile",
    "AliveProcess",
    "AliveVariable",
    "Counter",
    "Reminders",
    "compact",
    "compact_by_force",
    "inventory",
    "is_full",
    "reminder",
    "reserve_of",
    "summary_request",
    "threshold_of",
    "told",
    "visible",
    "written_down",
]

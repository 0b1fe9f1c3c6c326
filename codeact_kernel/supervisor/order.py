"""The order that a model asks for with `after`.

Comes in: the blocks that a block named, as they were found when it was launched. Goes out: an outcome where
it does not run (one of them is unknown, failed, or it is itself asked to end first), or None where its turn
has come. The order by names that blocks read and assign is the kernel's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from codeact_kernel.blocks import BlockResult, Outcome
from codeact_kernel.supervisor.live import BlockWatch

Ended = asyncio.Future[BlockResult]

_ENDED = {
    "error": "failed",
    "timeout": "was stopped at its deadline",
    "cancelled": "was cancelled",
    "rejected": "was rejected",
    "skipped": "was skipped",
    "died": "ended with its kernel",
}


async def wait_for_order(watch: BlockWatch, before: Mapping[str, Ended | None]) -> Outcome | None:
    """Wait until every block before this one has ended well.

    Args:
        watch: The block that waits.
        before: The ends of the blocks that it named in `after`; None for a name that no block has.

    Returns:
        The outcome where the block does not run, or None where it may.
    """
    unknown = [name for name, other in before.items() if other is None]
    if unknown:
        return Outcome(
            "rejected",
            f"after names {', '.join(map(repr, unknown))}, but no block of that name was started before this "
            'one. Name blocks that stand earlier, or leave `after` out; after="" runs it side by side.',
        )
    waiting = {ended for ended in before.values() if ended is not None}
    while waiting:
        either: set[asyncio.Future[Any]] = {*waiting, watch.asked}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if watch.asked.done():
            return watch.asked.result().of(Outcome(error="it was still waiting and has not run"))
        results = [ended.result() for ended in waiting if ended.done()]
        for result in results:
            if result.status != "ok":
                return _skipped(result)
        waiting = {ended for ended in waiting if not ended.done()}
    return None


def _skipped(result: BlockResult) -> Outcome:
    return Outcome(
        "skipped", f"it did not run: block {result.id!r}, which it waited for, {_ENDED[result.status]}"
    )

"""How a block comes to an end that is not its own.

Comes in: the task in which a block runs, the moment of its first line of code, and who may ask it to end.
Goes out: why it has to end (`until_due`), and whether it did (`stop`), within a bound. What is tried on a
block that does not react to an interrupt belongs into `stop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from codeact_kernel.blocks import Outcome, format_duration
from codeact_kernel.errors import KernelError


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a block has to end."""

    status: Literal["timeout", "cancelled"]
    reason: str
    """For the model, as a clause: "stopped at its deadline, …", "cancelled: …"."""

    def of(self, outcome: Outcome) -> Outcome:
        """The outcome of a block that was ended: this status, with what the block itself had to say after it.

        Args:
            outcome: How its runner says that it ended. A kernel that died meanwhile is told as that.
        """
        if outcome.status == "died":
            return outcome
        error = f"{self.reason}\n{outcome.error}" if outcome.error else self.reason
        return replace(outcome, status=self.status, error=error)


async def until_due(
    run: asyncio.Task[Any],
    began: asyncio.Future[float],
    asked: asyncio.Future[Ending],
    timeout: float | None,
) -> Ending | None:
    """Wait until a block has ended or has to end.

    Args:
        run: The task in which it runs.
        began: Done when its first line of code runs; its result is the loop's time of that moment.
        asked: Done when somebody wants it to end.
        timeout: Seconds from the first line of code, or None for no limit.

    Returns:
        Why it has to end, or None where it has ended by itself.
    """
    await asyncio.wait({run, began, asked}, return_when=asyncio.FIRST_COMPLETED)
    due = began.result() + timeout if began.done() and timeout is not None else None
    ending = Ending("timeout", f"stopped at its deadline, {format_duration(timeout or 0)} after it began")
    with suppress(TimeoutError):
        async with asyncio.timeout_at(due):
            await asyncio.wait({run, asked}, return_when=asyncio.FIRST_COMPLETED)
            ending = asked.result() if asked.done() else ending
    return None if run.done() else ending


async def stop(
    run: asyncio.Task[Any], interrupt: Callable[[], Awaitable[None]], *, every: float, grace: float
) -> bool:
    """Interrupt a block, again and again, until it ends or the grace is over.

    Args:
        run: The task in which it runs.
        interrupt: Interrupts it; may hang, and may fail because the kernel is gone, which `run` will tell.
        every: Seconds between two interrupts.
        grace: Seconds in all.

    Returns:
        Whether it has ended.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(grace):
            while not run.done():
                with suppress(KernelError):
                    await interrupt()
                await asyncio.wait({run}, timeout=every)
    return run.done()

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
from codeact_kernel.protocols import LAST

RUNGS = (0.0, 0.08, 0.16, 0.32, 0.48, 0.64)
"""When a block is interrupted, as parts of the grace; of 5 s: at once, after 0.4, 0.8, 1.6, 2.4 and 3.2 s. Code that
cleans up at an interrupt has until the third one; the last one may take what is left."""


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


class Clock:
    """When a block is due. It stands still while other code keeps the block from going on.

    Args:
        timeout: Seconds from the first line of code, or None for no limit.
    """

    def __init__(self, timeout: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self.timeout = timeout
        self.began: asyncio.Future[float] = self._loop.create_future()
        """Done when its first line of code runs; its result is the loop's time of that moment."""
        self.changed = asyncio.Event()
        """Set when it is due at another time than before."""
        self._stood = 0.0
        self._stands_since: float | None = None

    @property
    def stood(self) -> float:
        """The seconds for which it stood still."""
        return self._stood + (0.0 if self._stands_since is None else self._loop.time() - self._stands_since)

    @property
    def due(self) -> float | None:
        """When the block has to end, by the loop's time; None as long as it does not have to."""
        if self.timeout is None or not self.began.done() or self._stands_since is not None:
            return None
        return self.began.result() + self.timeout + self._stood

    def begin(self, ago: float = 0.0) -> None:
        """Take that the first line of code runs.

        Args:
            ago: For how many seconds it has done so.
        """
        self.began.set_result(self._loop.time() - ago)
        self.changed.set()

    def stand(self) -> None:
        """Stand still from now on."""
        if self.began.done() and self._stands_since is None:
            self._stands_since = self._loop.time()
            self.changed.set()

    def go_on(self) -> None:
        """Go on."""
        self._stood, self._stands_since = self.stood, None
        self.changed.set()


async def until_due(run: asyncio.Task[Any], clock: Clock, asked: asyncio.Future[Ending]) -> Ending | None:
    """Wait until a block has ended or has to end.

    Args:
        run: The task in which it runs.
        clock: Says when it is due.
        asked: Done when somebody wants it to end.

    Returns:
        Why it has to end, or None where it has ended by itself.
    """
    ending = Ending(
        "timeout", f"stopped at its deadline, {format_duration(clock.timeout or 0)} after it began"
    )
    with suppress(TimeoutError):
        while not (run.done() or asked.done()):
            clock.changed.clear()
            async with asyncio.timeout_at(clock.due):
                await _first(run, asked, clock.changed)
        ending = asked.result() if asked.done() else ending
    return None if run.done() else ending


async def _first(run: asyncio.Task[Any], asked: asyncio.Future[Ending], changed: asyncio.Event) -> None:
    change = asyncio.ensure_future(changed.wait())
    try:
        await asyncio.wait({run, asked, change}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        change.cancel()


async def stop(run: asyncio.Task[Any], interrupt: Callable[[int], Awaitable[None]], *, grace: float) -> bool:
    """Interrupt a block, again and again and ever harder, until it ends or the grace is over.

    Args:
        run: The task in which it runs.
        interrupt: Interrupts it, with how often it was interrupted before, or `LAST`. May hang, and may fail because
            the kernel is gone, which `run` will tell.
        grace: Seconds in all.

    Returns:
        Whether it has ended.
    """
    begun = asyncio.get_running_loop().time()
    for number, (at, until) in enumerate(zip(RUNGS, (*RUNGS[1:], 1.0), strict=True)):
        with suppress(TimeoutError):
            async with asyncio.timeout_at(begun + until * grace):
                with suppress(KernelError):
                    await _either(interrupt(LAST if at == RUNGS[-1] else number), run)
                await asyncio.wait({run})
        if run.done():
            return True
    return False


async def _either(interrupt: Awaitable[None], run: asyncio.Task[Any]) -> None:
    """Wait for an interrupt as long as the block has not ended."""
    sending = asyncio.ensure_future(interrupt)
    try:
        await asyncio.wait({sending, run}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not sending.done():
            sending.cancel()
            await asyncio.wait({sending})
    if not sending.cancelled():
        sending.result()

"""Reports of a block that is still running.

Comes in: the moment of a block's first line of code, its log, how often the model wants to hear, and whether it
does anything about what it hears. Goes out: at each interval the output that is new since the last report, and
nothing when there is none.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from codeact_kernel.blocks import Output
from codeact_kernel.supervisor.output import OutputLog

Report = Callable[[str, float, tuple[Output, ...]], None]

SLOWER = 2.0
"""By how much an interval grows when the model only waits; ours: of an hour that is asked for each 5 seconds the
model then reads some ten reports instead of seven hundred, and the first minute still as closely as it asked."""
LONGEST = 600.0
"""Seconds up to which it grows; ours: a person who looks in meanwhile finds that the model knows of the last ten
minutes."""


class Rhythm:
    """How often a block is reported: as the model asked, or less often while it only waits.

    Args:
        asked: Seconds between reports, as the model wrote them.
    """

    def __init__(self, asked: float) -> None:
        self.asked = asked
        self.interval = asked
        """Seconds between reports now."""
        self._changed = asyncio.Event()

    def slow_down(self) -> None:
        """Report less often, because the model did nothing about the last report."""
        self._set(max(self.asked, min(self.interval * SLOWER, LONGEST)))

    def restore(self) -> None:
        """Report as often as was asked."""
        self._set(self.asked)

    async def next(self, last: float) -> float:
        """Wait until the next report is due.

        Args:
            last: When the last one was due, or the block began; in the loop's time, as what is returned.

        Returns:
            When it was due: a whole number of intervals later. Those that were missed meanwhile are not made up
            for, and a change of the interval makes none that is due at once.
        """
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            due = last + self.interval * max(1, math.ceil((loop.time() - last) / self.interval))
            try:
                async with asyncio.timeout_at(due):
                    await self._changed.wait()
            except TimeoutError:
                return due

    def _set(self, interval: float) -> None:
        if interval != self.interval:
            self.interval = interval
            self._changed.set()


async def beat(began: asyncio.Future[float], rhythm: Rhythm, log: OutputLog, report: Report) -> None:
    """Report a block at each interval until cancelled.

    The intervals are counted from the first line of code. Output that is only white space is nothing new.

    Args:
        began: Done when the first line of code runs; its result is the loop's time of that moment.
        rhythm: How often it is reported.
        log: What the block puts out.
        report: Called with the new text, the seconds since the first line of code, and where the text is long with
            what is left out of it and its end.
    """
    await asyncio.wait({began})
    loop = asyncio.get_running_loop()
    start = due = began.result()
    mark = (0, 0)
    while True:
        due = await rhythm.next(due)
        text, more = log.since(mark)
        mark = log.mark
        if text.strip() or more:
            report(text, loop.time() - start, more)

"""Reports of a block that is still running.

Comes in: the moment of a block's first line of code, its log, and how often the model wants to hear. Goes
out: at each interval the output that is new since the last report, and nothing when there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from codeact_kernel.blocks import Output
from codeact_kernel.supervisor.output import OutputLog

Report = Callable[[str, float, tuple[Output, ...]], None]


async def beat(began: asyncio.Future[float], interval: float, log: OutputLog, report: Report) -> None:
    """Report a block at each interval until cancelled.

    The intervals are counted from the first line of code; of those that a busy loop has missed, all but the
    first have nothing new to say. Output that is only white space is nothing new.

    Args:
        began: Done when the first line of code runs; its result is the loop's time of that moment.
        interval: Seconds between reports.
        log: What the block puts out.
        report: Called with the new text, the seconds since the first line of code, and where the text is long with
            what is left out of it and its end.
    """
    await asyncio.wait({began})
    loop = asyncio.get_running_loop()
    start = began.result()
    mark, beats = (0, 0), 0
    while True:
        beats += 1
        await asyncio.sleep(start + beats * interval - loop.time())
        text, more = log.since(mark)
        mark = log.mark
        if text.strip() or more:
            report(text, loop.time() - start, more)

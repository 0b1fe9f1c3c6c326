"""Calls that wait until something is so.

Comes in: what they wait for, and a stir whenever something has happened. Goes out: the end of a wait, and now and then
progress for who waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

BEAT = 5.0
"""Seconds between two reports of progress to a client that wants them."""

Progress = Callable[[float, float, str], Awaitable[None]]
"""Tells a client that waits: (seconds so far, seconds at most, words)."""


class Waiting:
    """All waits of one session.

    Args:
        words: What a person may see meanwhile of blocks, by their ids; of all where that is None.
    """

    def __init__(self, words: Callable[[Iterable[str] | None], str]) -> None:
        self._words = words
        self._waiting: set[asyncio.Event] = set()

    def stir(self) -> None:
        """Let all that wait look again."""
        for waiting in self._waiting:
            waiting.set()

    async def until(
        self,
        is_so: Callable[[], bool],
        seconds: float,
        progress: Progress,
        ids: Iterable[str] | None,
        *,
        also: float = 0.0,
        asks: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait until something is so, or for a time.

        Args:
            is_so: Looked at whenever something happens.
            seconds: The time.
            progress: Told now and then.
            ids: The blocks that it is about; None for all.
            also: A moment at which to look again, in the loop's time.
            asks: Whether its call has a question with a person: it goes on as long, and the time begins anew.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        end, beat = began + max(0.0, seconds), began + BEAT
        stirred = asyncio.Event()
        self._waiting.add(stirred)
        try:
            while (not is_so() and loop.time() < end) or asks():
                stirred.clear()
                end = loop.time() + max(0.0, seconds) if asks() else end
                moments = [moment for moment in (end, also) if moment > loop.time()]
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(min([beat, *moments])):
                        await stirred.wait()
                if loop.time() >= beat:
                    beat = loop.time() + BEAT
                    await progress(loop.time() - began, seconds, self._words(ids))
        finally:
            self._waiting.discard(stirred)

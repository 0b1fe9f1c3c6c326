"""How many calls to one endpoint are under way at once: one rule for all agents of a process.

Comes in: calls that want to be made, and the failures of those that were. Goes out: their turns, first come, first
served. Nothing is held back until the endpoint limits the rate; then all wait as long as it asks, half as many go on,
and each call that works lets a little more through (additive increase, multiplicative decrease).
"""

from __future__ import annotations

import asyncio
import random
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

from codeact_kernel.errors import RateLimited
from codeact_kernel.model.retry import TryAgain

PAUSE = 1.0
"""Seconds for which all wait where the endpoint limits the rate and does not say how long; ours."""
STAGGER = 0.25
"""Seconds at most between two calls that are let through after a wait, until one has worked; ours: who was held back
together does not come back together."""
Tell = Callable[[str, float], None]
"""Hears that a call waits: why, and the seconds."""


class Governor:
    """Lets calls to one endpoint through.

    Args:
        most: Calls at once; None for as many as the endpoint takes.
        jitter: A number from 0 to 1, anew each time.
    """

    def __init__(self, most: int | None = None, jitter: Callable[[], float] = random.random) -> None:
        self.most = most
        self._jitter = jitter
        self._allowed: float | None = None
        """Calls at once that the endpoint is known to take; None while it has never limited the rate."""
        self._under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._until = 0.0
        self._why = ""
        self._gently = False
        """Whether no call has worked since the last wait."""
        self._timer: asyncio.TimerHandle | None = None
        self._decreased = 0.0

    @property
    def allowed(self) -> float:
        """Calls that may be under way at once; a fraction more lets in one more."""
        return min(limit for limit in (self.most, self._allowed, float("inf")) if limit is not None)

    @asynccontextmanager
    async def turn(self, tell: Tell = lambda why, wait: None, longest: float = 300.0) -> AsyncIterator[None]:
        """A call's turn, from the request to the end of its reply. It may be cancelled while it waits.

        Args:
            tell: Hears of a wait that the endpoint has asked for.
            longest: Seconds for which the endpoint's wish holds others back; a longer one ends the call that was told.
        """
        await self._enter(tell)
        began = asyncio.get_running_loop().time()
        try:
            yield
            self._worked()
        except TryAgain as failure:
            if isinstance(failure.error, RateLimited):
                self._limited(began, failure, longest)
            raise
        finally:
            self._under_way -= 1
            self._let_in()

    async def _enter(self, tell: Tell) -> None:
        loop = asyncio.get_running_loop()
        if (wait := self._until - loop.time()) > 0:
            tell(self._why, wait)
        place = loop.create_future()
        self._waiting.append(place)
        self._let_in()
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self._under_way -= 1
                self._let_in()
            raise

    def _let_in(self) -> None:
        """Let in who is next, as far as there is room; after a wait one after the other."""
        loop = asyncio.get_running_loop()
        while self._waiting and self._under_way < self.allowed:
            if (wait := self._until - loop.time()) > 0:
                if self._timer is None:
                    self._timer = loop.call_later(wait, self._wake)
                return
            if (place := self._waiting.popleft()).cancelled():
                continue
            self._under_way += 1
            place.set_result(None)
            if self._gently:
                self._until = loop.time() + STAGGER * self._jitter()

    def _wake(self) -> None:
        self._timer = None
        self._let_in()

    def _worked(self) -> None:
        self._gently = False
        if self._allowed is not None:
            self._allowed += 1 / self._allowed

    def _limited(self, began: float, failure: TryAgain, longest: float) -> None:
        """Hold everybody back; those that were under way at the same time say the same, and halve nothing again."""
        now = asyncio.get_running_loop().time()
        self._why = failure.error.message
        self._until = max(self._until, now + min(longest, failure.retry_after or PAUSE))
        self._gently = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if began >= self._decreased:
            self._decreased = now
            self._allowed = max(1.0, min(self.allowed, self._under_way) / 2)


_governors: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, Governor]] = (
    weakref.WeakKeyDictionary()
)
"""Of each loop those of its endpoints: futures and clocks are a loop's own."""


def governor_of(endpoint: Hashable, most: int | None = None) -> Governor:
    """The governor of an endpoint, the same for all who ask it.

    Args:
        endpoint: What has one limit: the address and the key.
        most: Calls at once; the least of what all who ask say.
    """
    governors = _governors.setdefault(asyncio.get_running_loop(), {})
    governor = governors.setdefault(endpoint, Governor())
    if most is not None:
        governor.most = min(most, governor.most or most)
    return governor

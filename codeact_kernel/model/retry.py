"""The one place where a call to a model is tried again.

Comes in: an attempt that may fail with `TryAgain`. Goes out: its value, or the `ModelError` to end with. The
client library's own retries are off, so nothing multiplies these; nothing that has yielded a piece is tried
again, because a block of it may have started.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from codeact_kernel.blocks import format_duration
from codeact_kernel.errors import ModelError, RateLimited

T = TypeVar("T")
OnRetry = Callable[[str, float], None]
"""Hears of each retry before its wait: the reason in one line, and the wait in seconds."""
Sleep = Callable[[float], Awaitable[None]]
_MOST_DOUBLINGS = 64
"""Past any ceiling; a float holds a thousand, which an endpoint that is down for a night comes to."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long. Waits without a Retry-After are full jitter: anything from 0 to a bound."""

    patience: float = 300.0
    """Seconds for which a call is tried again before the run stops, to be resumed: long enough for an endpoint that is
    deployed anew and for most limits of a rate, short enough that a person who watches is told. A longer Retry-After
    ends the call at once."""
    attempts: int | None = None
    """Tries in all, the first one included; None for as many as patience allows."""
    first_attempts: int = 3
    """Tries while the endpoint has never answered: a wrong address should be told soon."""
    base: float = 1.0
    """Seconds that bound the first wait; the bound doubles with each try."""
    ceiling: float = 60.0
    """Seconds that no wait without a Retry-After exceeds."""


class TryAgain(Exception):
    """An attempt failed in a way that may pass.

    Args:
        error: What to end with when the tries are used up.
        retry_after: Seconds that the endpoint asks to wait, or None where it did not say.
        attempts: Tries to allow for this kind of failure; None for the policy's.
    """

    def __init__(
        self, error: ModelError, retry_after: float | None = None, attempts: int | None = None
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.retry_after = retry_after
        self.attempts = attempts


class Retrying:
    """Runs attempts under a policy.

    Args:
        policy: How often and how long.
        on_retry: Hears of each retry.
        sleep: What waits; a test passes one that jumps.
        jitter: A number from 0 to 1, anew each time.
    """

    def __init__(
        self,
        policy: RetryPolicy | None = None,
        on_retry: OnRetry | None = None,
        sleep: Sleep = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.policy = policy or RetryPolicy()
        self._on_retry = on_retry
        self._sleep = sleep
        self._jitter = jitter

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until it works, is refused, or must not be tried again.

        Args:
            attempt: One try. `TryAgain` asks for another; any other exception passes through.

        Raises:
            RateLimited: If the endpoint asks for a longer wait than patience allows.
            ModelError: What the last `TryAgain` carried, when the tries are used up.
        """
        # A sum, so that the time in which the machine slept is no part of it.
        tries, took, clock = 0, 0.0, asyncio.get_running_loop().time
        while True:
            tries, began = tries + 1, clock()
            try:
                return await attempt()
            except TryAgain as failure:
                took += clock() - began
                allowed = self.policy.attempts if failure.attempts is None else failure.attempts
                if allowed is not None and tries >= allowed:
                    raise failure.error from None
                wait = self._wait(failure, tries)
                if took >= self.policy.patience:
                    raise failure.error from None
                reason = failure.error.message
            self.tell(reason, wait)
            await self._sleep(wait)
            took += wait

    def tell(self, reason: str, wait: float) -> None:
        """Report a retry.

        Args:
            reason: Why, in one line.
            wait: Seconds until it is made.
        """
        if self._on_retry is not None:
            self._on_retry(reason, wait)

    def _wait(self, failure: TryAgain, tries: int) -> float:
        policy, asked = self.policy, failure.retry_after
        if not asked:
            doublings = min(tries - 1, _MOST_DOUBLINGS)
            return self._jitter() * min(policy.ceiling, policy.base * 2.0**doublings)
        if asked > policy.patience:
            error = failure.error
            raise RateLimited(
                f"{error.endpoint} asks to wait {format_duration(asked)} before the next call, longer than "
                f"the {format_duration(policy.patience)} that a run waits; the run can be resumed then",
                retry_after=asked,
                model=error.model,
                endpoint=error.endpoint,
                status=error.status,
            ) from None
        # A little more than asked, differently each time: agents that were limited together must not
        # come back together.
        return asked + self._jitter() * policy.base

"""What a run may use, and what it has used: one pool for an agent and all below it.

Comes in: limits; before each call to a model what it will take at most, after it what it took. Goes out: leave to make
the call, with the longest reply that the pool can still pay, or a `LimitReached`; what is used and what is left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from codeact_kernel.blocks import format_duration
from codeact_kernel.errors import ConfigError, LimitReached
from codeact_kernel.events import Event, Notice, Spent
from codeact_kernel.messages import Usage
from codeact_kernel.prices import Prices, cost

REPLY = 16_384
"""Tokens that are set aside for a reply of which nobody has said how long it may be; ours, and asked of the endpoint
then: long replies and their reasoning fit, and what is cut is asked for."""
LEAST = 256
"""Tokens of a reply that have to fit, or the call is not made; ours: a short answer, or a block of a few lines."""
COMFORT = 2_048
"""Tokens of a reply below which a call waits for others to be settled rather than being cut short; ours."""
WARN_AT = 0.8
"""Share of a limit from which models are told what is left."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use; None for no limit."""

    tokens: int | None = None
    """Of prompts and replies, cached ones and reasoning included."""
    cost: float | None = None
    """US dollars."""
    seconds: float | None = None
    turns: int | None = None
    """Replies."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call to a model that is about to be made."""

    model: str
    prompt: Callable[[], int]
    """Counts the tokens of its prompt."""
    longest: int | None = None
    """The longest reply that is wanted, in tokens; None for any."""
    window: int | None = None
    """Tokens of the model's window; None where that is not known."""
    prices: Prices | None = None
    """What it costs; None where that is not known."""


@dataclass(slots=True, eq=False)
class Reservation:
    """What is set aside for a call that is under way."""

    max_tokens: int | None
    """The longest reply that is paid for; None for any."""
    tokens: int = 0
    cost: float = 0.0
    settled: bool = False


class Budget:
    """The pool. Its clock is monotonic: the wall clock may jump.

    Args:
        limits: What may be used.
        spent: What an earlier process has used of it.
        warn_at: Share of a limit from which models are told.
        tell: Gets `Spent` after each call, and `Notice` where a reply is longer than was paid for.
        clock: Seconds from any moment on.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        spent: Spent | None = None,
        *,
        warn_at: float = WARN_AT,
        tell: Callable[[Event], None] = lambda event: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or Limits()
        before = spent or Spent()
        self._usage, self._turns, self._before = before.usage, before.turns, before.seconds
        self._warn_at = warn_at
        self._tell = tell
        self._clock = clock
        self._began = clock()
        self._held: list[Reservation] = []
        self._freed = asyncio.Event()
        self._overran = False

    @property
    def spent(self) -> Spent:
        """What is used, calls that are under way left aside."""
        return Spent(self._usage, self._turns, self._before + self._clock() - self._began)

    @property
    def used(self) -> dict[str, float]:
        """What is used, by limit; without the cost where that is not known."""
        spent = self.spent
        used = {"tokens": spent.usage.total_tokens, "seconds": spent.seconds, "turns": spent.turns}
        return used if spent.usage.cost is None else used | {"cost": spent.usage.cost}

    @property
    def allowed(self) -> dict[str, float]:
        """What may be used, by limit; without those that there are not."""
        named = {name: getattr(self.limits, name) for name in ("tokens", "cost", "seconds", "turns")}
        return {name: limit for name, limit in named.items() if limit is not None}

    @property
    def left(self) -> dict[str, float]:
        """What is left, by limit; never below zero."""
        used = self.used
        return {name: max(0, limit - used.get(name, 0)) for name, limit in self.allowed.items()}

    def take_turn(self) -> None:
        """Count a turn.

        Raises:
            LimitReached: If there is none left.
        """
        turns = self.limits.turns
        if turns is not None and self._turns >= turns:
            used = "1 turn is" if turns == 1 else f"{turns:,} turns are"
            raise LimitReached(f"{used} used up", limit="turns", allowed=turns)
        self._turns += 1

    async def reserve(self, call: Call) -> Reservation:
        """Set aside what a call may take; waits where calls under way have set aside what it needs.

        Args:
            call: The call.

        Raises:
            LimitReached: If no reply fits, however short.
            ConfigError: If its price has to be known, and is not.
        """
        if self.limits.cost is not None and call.prices is None:
            raise ConfigError(
                f"max_cost needs the price of {call.model}, which is not known: say prices = {{ input = …, output = … "
                "}, in US dollars per million tokens, in its table of [models] in codeact.toml"
            )
        if self.limits.cost is not None and self._usage.cost is None:
            raise ConfigError(
                "max_cost cannot be held: the price of a model that this run has asked before is not known, so nor is "
                "what the run has cost so far; leave max_cost out, or begin another run"
            )
        if self.limits.tokens is None and self.limits.cost is None:
            return self._hold(Reservation(call.longest))
        prompt, most = call.prompt(), call.longest or REPLY
        if call.window is not None:
            most = max(LEAST, min(most, call.window - prompt))
        while True:
            limit, room = min(self._room(prompt, call.prices).items(), key=lambda item: item[1])
            if room >= min(most, COMFORT if self._held else LEAST):
                break
            if not self._held:
                raise self._reached(limit, prompt)
            self._freed.clear()
            await self._freed.wait()
        reply = int(min(most, room))
        price = cost(Usage(prompt, 0, reply), call.prices) or 0.0
        return self._hold(Reservation(reply, prompt + reply, price))

    def settle(self, held: Reservation, usage: Usage) -> None:
        """Count what a call took, in place of what was set aside for it.

        Args:
            held: What was set aside.
            usage: What it took; an empty one for a call that was not answered.
        """
        held.settled = True
        self._held.remove(held)
        self._freed.set()
        if usage == Usage():
            return
        self._usage += usage
        if held.tokens and usage.output_tokens > (held.max_tokens or 0) and not self._overran:
            self._overran = True
            self._tell(
                Notice(
                    "overrun",
                    f"a reply took {usage.output_tokens:,} tokens where {held.max_tokens:,} were asked for: the "
                    "endpoint does not heed max_tokens, so each agent may overrun the limit by one reply",
                )
            )
        self._tell(self.spent)

    def near(self) -> dict[str, str]:
        """What is left of each limit that is nearly reached, in words for a model, by limit."""
        used, allowed, left = self.used, self.allowed, self.left
        return {
            name: f"The budget nears its end: you and all sub-agents have {amount(name, limit)} together, and "
            f"{amount(name, left[name])} left. At the end of it the run stops without an answer: finish what matters "
            "most, and answer in time."
            for name, limit in allowed.items()
            if used.get(name, 0) >= self._warn_at * limit
        }

    def _hold(self, reservation: Reservation) -> Reservation:
        self._held.append(reservation)
        return reservation

    def _room(self, prompt: int, prices: Prices | None) -> dict[str, float]:
        """The tokens of a reply that each limit leaves room for."""
        held, left, room = self._held, self.left, dict[str, float]()
        if "tokens" in left:
            room["tokens"] = left["tokens"] - sum(one.tokens for one in held) - prompt
        if "cost" in left and prices is not None:
            money = left["cost"] - sum(one.cost for one in held) - (cost(Usage(prompt), prices) or 0.0)
            free = float("inf") if money >= 0 else -1.0
            room["cost"] = money * 1_000_000 / prices.output if prices.output else free
        return room

    def _reached(self, limit: str, prompt: int) -> LimitReached:
        allowed, used = self.allowed[limit], self.used.get(limit, 0)
        return LimitReached(
            f"the budget of {amount(limit, allowed)} is used up: {amount(limit, used)} so far, and the next call's "
            f"prompt is {prompt:,} tokens more",
            limit=limit,
            allowed=allowed,
        )


def amount(limit: str, value: float) -> str:
    """Write an amount for a reader: "200,000 tokens", "$0.25", "1h05m", "3 turns".

    Args:
        limit: The name of its limit.
        value: How much.
    """
    match limit:
        case "cost":
            return f"${value:,.2f}" if value >= 0.1 or not value else f"${value:.4f}"
        case "seconds":
            return format_duration(value)
    return f"{value:,.0f} {limit if value != 1 else limit.rstrip('s')}"

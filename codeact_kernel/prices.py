"""What a call cost.

Comes in: the usage of a call, and the prices that the settings name. Goes out: US dollars, or None where no
price is known: an unknown price is never taken for zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codeact_kernel.errors import ConfigError
from codeact_kernel.messages import Usage

_FIELDS = ("input", "cached", "output")


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in US dollars per million tokens, as providers list them."""

    input: float
    """For prompt tokens that were not in the endpoint's cache."""
    output: float
    """For reply tokens, reasoning included."""
    cached: float | None = None
    """For prompt tokens from the cache; None where they cost what the others cost."""


FREE = Prices(0.0, 0.0, 0.0)
"""What runs on this machine, or is read from a record, costs nothing."""


def cost(usage: Usage, prices: Prices | None) -> float | None:
    """Work out what a usage costs.

    Args:
        usage: The tokens; its own `cost` is not looked at.
        prices: The prices, or None where they are not known.

    Returns:
        US dollars, or None where the prices are not known.
    """
    if prices is None:
        return None
    cached = prices.input if prices.cached is None else prices.cached
    fresh_tokens = max(0, usage.input_tokens - usage.cached_tokens)
    millionths = (
        fresh_tokens * prices.input + usage.cached_tokens * cached + usage.output_tokens * prices.output
    )
    return millionths / 1_000_000


def read_prices(where: str, value: Any) -> Prices:
    """Read prices from a settings file: `{input = 0.25, cached = 0.025, output = 2.0}`.

    Args:
        where: What to call the place in an error.
        value: What the file holds there.

    Raises:
        ConfigError: If it is no table of prices.
    """
    if not isinstance(value, Mapping) or not {"input", "output"} <= value.keys() <= set(_FIELDS):
        raise ConfigError(
            f"{where}.prices: write {{ input = 0.25, cached = 0.025, output = 2.0 }}, "
            "in US dollars per million tokens (cached may be left out)"
        )
    for name, price in value.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < math.inf:
            raise ConfigError(
                f"{where}.prices.{name}: {price!r} is no price in US dollars per million tokens"
            )
    return Prices(**{name: float(price) for name, price in value.items()})

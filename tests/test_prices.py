from __future__ import annotations

import pytest

from codeact_kernel.messages import Usage
from codeact_kernel.prices import FREE, Prices, cost


def test_each_kind_of_token_has_its_price():
    usage = Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000)
    assert cost(usage, Prices(2.0, 8.0, 0.5)) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.1 * 8)


def test_without_a_price_for_cached_tokens_they_cost_what_others_cost():
    assert cost(Usage(1_000_000, 1_000_000, 0), Prices(2.0, 8.0)) == pytest.approx(2.0)


def test_unknown_prices_are_never_zero():
    assert cost(Usage(1, 0, 1), None) is None
    assert cost(Usage(), None) is None


def test_what_runs_here_is_free():
    assert cost(Usage(10**9, 0, 10**9), FREE) == 0.0


def test_more_cached_than_sent_never_earns_money():
    assert cost(Usage(10, 50, 0), Prices(1.0, 1.0, 0.0)) == 0.0

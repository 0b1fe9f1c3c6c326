"""The pool of a run: nothing goes past it, together or alone."""

from __future__ import annotations

import asyncio

import pytest

from codeact_kernel.errors import ConfigError, LimitReached
from codeact_kernel.events import Notice, Spent
from codeact_kernel.messages import Usage
from codeact_kernel.policy import Budget, Call, Limits, amount
from codeact_kernel.policy.budget import LEAST, REPLY
from codeact_kernel.prices import FREE, Prices
from codeact_kernel.testing import jumping

DEAR = Prices(input=1.0, output=10.0, cached=0.1)


def call(prompt, longest=None, *, window=None, prices=None):
    return Call("m", lambda: prompt, longest, window, prices)


def used(into, out, cached=0, cost=0.0):
    return Usage(into, cached, out, 1, cost)


@jumping
async def test_without_limits_nothing_is_counted_beforehand_and_a_reply_may_be_of_any_length():
    budget = Budget()

    def prompt():
        raise AssertionError("it was counted")

    held = await budget.reserve(Call("m", prompt))
    assert held.max_tokens is None
    budget.settle(held, used(10, 20, cost=None))
    assert budget.spent.usage == used(10, 20, cost=None)
    assert budget.left == {}


@jumping
async def test_a_reply_gets_what_is_left_and_no_more():
    budget = Budget(Limits(tokens=10_000))
    assert (await budget.reserve(call(4_000, 2_000))).max_tokens == 2_000
    budget = Budget(Limits(tokens=10_000))
    assert (await budget.reserve(call(4_000))).max_tokens == 6_000


@jumping
async def test_where_nobody_says_how_long_a_reply_may_be_it_is_bounded_all_the_same():
    budget = Budget(Limits(tokens=10_000_000))
    assert (await budget.reserve(call(4_000))).max_tokens == REPLY
    assert (await budget.reserve(call(4_000, window=8_192))).max_tokens == 4_192


@jumping
async def test_where_no_reply_fits_the_call_is_refused_and_nothing_is_held():
    budget = Budget(Limits(tokens=10_000))
    with pytest.raises(LimitReached, match="10,000 tokens is used up: 0 tokens so far") as caught:
        await budget.reserve(call(10_000 - LEAST + 1))
    assert (caught.value.limit, caught.value.allowed) == ("tokens", 10_000)
    assert (await budget.reserve(call(10_000 - LEAST))).max_tokens == LEAST


@jumping
async def test_a_reply_that_is_wanted_short_fits_where_a_long_one_does_not():
    budget = Budget(Limits(tokens=1_000))
    assert (await budget.reserve(call(990, 10))).max_tokens == 10


@jumping
async def test_money_bounds_a_reply_as_tokens_do():
    budget = Budget(Limits(cost=0.02))
    held = await budget.reserve(call(10_000, prices=DEAR))
    assert held.max_tokens == 1_000  # a cent for the prompt, and one for the reply
    budget.settle(held, used(10_000, 500, 9_000, cost=0.0069))
    assert budget.left["cost"] == pytest.approx(0.0131)


@jumping
async def test_what_costs_nothing_is_bounded_by_no_money():
    budget = Budget(Limits(cost=0.01))
    assert (await budget.reserve(call(10**9, prices=FREE))).max_tokens == REPLY


@jumping
async def test_a_limit_of_money_refuses_a_model_whose_price_is_not_known():
    budget = Budget(Limits(cost=1.0))
    with pytest.raises(ConfigError, match="price of m, which is not known: say prices"):
        await budget.reserve(call(10))


@jumping
async def test_a_limit_of_money_refuses_a_run_of_which_nobody_knows_what_it_has_cost():
    budget = Budget(Limits(cost=1.0), Spent(used(10, 10, cost=None), 1))
    with pytest.raises(ConfigError, match="what the run has cost so far"):
        await budget.reserve(call(10, prices=DEAR))


@jumping
async def test_of_two_limits_the_nearer_one_counts():
    budget = Budget(Limits(tokens=100_000, cost=0.001))
    with pytest.raises(LimitReached) as caught:
        await budget.reserve(call(1_000, prices=DEAR))
    assert caught.value.limit == "cost"


async def one_waits():
    """A budget, a call that has set aside all of it, and one that waits for that."""
    budget = Budget(Limits(tokens=10_000))
    first = await budget.reserve(call(1_000))
    waiting = asyncio.create_task(budget.reserve(call(1_000)))
    await asyncio.sleep(60)
    assert not waiting.done()
    return budget, first, waiting


@jumping
async def test_who_comes_while_others_hold_what_is_left_waits_until_it_is_settled():
    budget, first, waiting = await one_waits()
    budget.settle(first, used(1_000, 100))
    assert (await waiting).max_tokens == 7_900


@jumping
async def test_who_waits_and_gets_nothing_is_refused():
    budget, first, waiting = await one_waits()
    budget.settle(first, used(1_000, 8_900))
    with pytest.raises(LimitReached):
        await waiting


@jumping
async def test_who_stops_waiting_holds_nothing():
    budget, first, waiting = await one_waits()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    budget.settle(first, Usage())
    assert (await budget.reserve(call(1_000))).max_tokens == 9_000


@pytest.mark.parametrize("limits", [Limits(tokens=50_000), Limits(cost=0.05)])
@jumping
async def test_eight_who_ask_at_once_again_and_again_never_overshoot(limits):
    """Each asks until it is refused, and takes all that it was given: the sum stays within the limit."""
    budget = Budget(limits)
    spent, refused = [], []

    async def child(number):
        while True:
            try:
                held = await budget.reserve(call(900 + number, prices=DEAR))
            except LimitReached:
                refused.append(number)
                return
            await asyncio.sleep(1 + number % 3)
            took = min(held.max_tokens, 700 * number)
            usage = used(900 + number, took, cost=(900 + number + 10 * took) / 1e6)
            budget.settle(held, usage)
            spent.append(usage)

    await asyncio.gather(*(child(number) for number in range(1, 9)))
    whole = sum(spent, Usage())
    assert len(refused) == 8
    if limits.tokens:
        assert limits.tokens - LEAST - 1_000 < whole.total_tokens <= limits.tokens
    else:
        assert 0.045 < whole.cost <= limits.cost + 1e-9


@jumping
async def test_where_an_endpoint_does_not_heed_max_tokens_it_is_said_once():
    told = []
    budget = Budget(Limits(tokens=10_000), tell=told.append)
    for _ in range(2):
        held = await budget.reserve(call(1_000, 500))
        budget.settle(held, used(1_000, 2_000))
    (notice,) = [event for event in told if isinstance(event, Notice)]
    assert notice.about == "overrun"
    assert "a reply took 2,000 tokens where 500 were asked for" in notice.text
    assert "overrun the limit by one reply" in notice.text


@jumping
async def test_after_each_call_it_is_told_what_is_spent_and_a_later_process_goes_on_from_there():
    told = []
    budget = Budget(Limits(tokens=10_000, turns=3, seconds=100), tell=told.append, clock=clock())
    budget.take_turn()
    held = await budget.reserve(call(1_000))
    await asyncio.sleep(40)
    budget.settle(held, used(1_000, 200))
    assert told == [Spent(used(1_000, 200), 1, 40.0)]

    later = Budget(Limits(tokens=10_000, turns=3, seconds=100), told[-1], clock=clock())
    assert later.left == {"tokens": 8_800, "turns": 2, "seconds": 60.0}
    later.take_turn()
    later.take_turn()
    with pytest.raises(LimitReached, match="3 turns are used up"):
        later.take_turn()


@jumping
async def test_a_call_that_was_not_answered_costs_nothing_and_is_not_told():
    told = []
    budget = Budget(Limits(tokens=10_000), tell=told.append)
    budget.settle(await budget.reserve(call(1_000)), Usage())
    assert told == []
    assert budget.left == {"tokens": 10_000}


@jumping
async def test_each_limit_is_near_from_a_share_on():
    budget = Budget(
        Limits(tokens=1_000, turns=10, cost=1.0),
        Spent(used(0, 799, cost=0.85), 8),
        warn_at=0.8,
        clock=clock(),
    )
    assert list(budget.near()) == ["cost", "turns"]
    assert "have $1.00 together, and $0.15 left" in budget.near()["cost"]
    assert "have 10 turns together, and 2 turns left" in budget.near()["turns"]


@jumping
async def test_once_a_price_is_not_known_the_cost_is_not_known_rather_than_low():
    budget = Budget(Limits(tokens=10_000))
    for cost in (0.5, None):
        budget.settle(await budget.reserve(call(10)), used(10, 10, cost=cost))
    assert "cost" not in budget.used


def test_amounts_are_written_for_a_reader():
    assert amount("tokens", 200_000) == "200,000 tokens"
    assert amount("turns", 1) == "1 turn"
    assert amount("cost", 0.25) == "$0.25"
    assert amount("cost", 0.0012) == "$0.0012"
    assert amount("seconds", 3_900) == "1h05m"


def clock():
    return asyncio.get_running_loop().time

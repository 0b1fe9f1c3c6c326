"""One governor for all who ask an endpoint."""

from __future__ import annotations

import asyncio

import pytest

from codeact_kernel.errors import ModelUnreachable, RateLimited
from codeact_kernel.messages import Message, ModelRequest
from codeact_kernel.model import ModelSettings, open_model
from codeact_kernel.model.governor import PAUSE, Governor, governor_of
from codeact_kernel.model.retry import TryAgain
from codeact_kernel.testing import ScriptedEndpoint, jumping
from codeact_kernel.testing.endpoint import failing


def limited(wait=None):
    return TryAgain(RateLimited("slow down", retry_after=wait), wait)


class Endpoint:
    """Calls through a governor, each of a second; notes when each began and how many were under way."""

    def __init__(self, governor):
        self.governor = governor
        self.began: list[float] = []
        self.told: list[tuple[str, float]] = []
        self.now = self.most = 0

    async def call(self, failure=None):
        async with self.governor.turn(lambda why, wait: self.told.append((why, wait))):
            self.began.append(asyncio.get_running_loop().time())
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await asyncio.sleep(1)
                if failure is not None:
                    raise failure
            finally:
                self.now -= 1

    async def many(self, count):
        await asyncio.gather(*(self.call() for _ in range(count)))


async def fails(call):
    with pytest.raises(TryAgain):
        await call


@jumping
async def test_nothing_is_held_back_while_the_endpoint_limits_nothing():
    endpoint = Endpoint(Governor())
    await endpoint.many(50)
    assert endpoint.most == 50
    assert endpoint.told == []


@jumping
async def test_no_more_than_are_allowed_are_under_way_first_come_first_served():
    endpoint = Endpoint(Governor(3))
    order = []

    async def call(number):
        await endpoint.call()
        order.append(number)

    await asyncio.gather(*(call(number) for number in range(9)))
    assert endpoint.most == 3
    assert order == list(range(9))


@jumping
async def test_what_one_is_told_holds_back_all_and_they_come_back_one_after_the_other():
    endpoint = Endpoint(Governor(jitter=lambda: 1.0))
    await asyncio.gather(*(fails(endpoint.call(limited(30.0))) for _ in range(4)))
    await endpoint.many(3)
    assert endpoint.began[4:] == [
        31.0,
        31.25,
        32.0,
    ]  # two at once from now on, and the third when one has worked
    assert endpoint.told == [("slow down", 30.0)] * 3


@jumping
async def test_where_it_does_not_say_how_long_all_wait_for_a_moment():
    endpoint = Endpoint(Governor(jitter=lambda: 0.0))
    await fails(endpoint.call(limited()))
    await endpoint.call()
    assert endpoint.began[1] == 1 + PAUSE


@jumping
async def test_half_as_many_go_on_and_each_that_works_lets_a_little_more_through():
    endpoint = Endpoint(Governor(jitter=lambda: 0.0))
    calls = [endpoint.call(limited(1.0)) for _ in range(8)]
    await asyncio.gather(*(fails(call) for call in calls))
    assert endpoint.governor.allowed == 4  # eight said the same, which halves once
    endpoint.most = 0
    await endpoint.many(40)
    assert 4 < endpoint.most < 12


@jumping
async def test_a_wait_longer_than_patience_is_not_everybodys():
    endpoint = Endpoint(Governor(jitter=lambda: 0.0))
    await fails(endpoint.call(limited(16 * 86_400.0)))
    await endpoint.call()
    assert endpoint.began[1] == 301.0


@jumping
async def test_other_failures_hold_nobody_back():
    endpoint = Endpoint(Governor())
    await fails(endpoint.call(TryAgain(ModelUnreachable("down"), 10.0)))
    await endpoint.call()
    assert endpoint.began == [0.0, 1.0]


@jumping
async def test_who_stops_waiting_takes_nobodys_turn():
    endpoint = Endpoint(Governor(1))
    tasks = [asyncio.create_task(endpoint.call()) for _ in range(4)]
    await asyncio.sleep(0.5)
    tasks[0].cancel()
    tasks[1].cancel()
    tasks[2].cancel()
    await asyncio.wait_for(tasks[3], 5)
    await endpoint.call()
    assert endpoint.most == 1


@jumping
async def test_who_is_cancelled_in_the_moment_of_its_turn_gives_it_on():
    governor = Governor(1)
    first = governor.turn()
    await first.__aenter__()
    waiting = asyncio.create_task(Endpoint(governor).call())
    await asyncio.sleep(0)
    await first.__aexit__(None, None, None)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.wait_for(Endpoint(governor).call(), 5)


@jumping
async def test_all_who_ask_one_endpoint_with_one_key_have_one_governor():
    assert governor_of(("http://a", None)) is governor_of(("http://a", None), 8)
    assert governor_of(("http://a", None), 4).most == 4
    assert governor_of(("http://a", None), 6).most == 4
    assert governor_of(("http://a", "other key")) is not governor_of(("http://a", None))


async def test_a_limited_rate_that_one_model_meets_holds_back_another_at_the_same_endpoint():
    async with ScriptedEndpoint([failing(429, "slow", retry_after=1), "a", "b"]) as endpoint:
        models = [open_model(ModelSettings(name, name, base_url=endpoint.base_url)) for name in "xy"]

        async def ask(model):
            return [piece async for piece in model.stream(ModelRequest((Message("user", "Hi."),)))]

        began = asyncio.get_running_loop().time()
        first = asyncio.create_task(ask(models[0]))
        while not endpoint.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await ask(models[1])
        assert asyncio.get_running_loop().time() - began >= 1.0
        await first
        for model in models:
            await model.aclose()

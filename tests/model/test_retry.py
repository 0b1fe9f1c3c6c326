from __future__ import annotations

import asyncio

import pytest

from codeact_kernel.errors import ModelRefused, ModelUnreachable, RateLimited
from codeact_kernel.model.retry import Retrying, RetryPolicy, TryAgain


class Jumping:
    """A sleep that only notes how long it was asked to be."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def down(wait: float | None = None, attempts: int | None = None) -> TryAgain:
    return TryAgain(ModelUnreachable("down", endpoint="http://e"), wait, attempts)


class Failing:
    """Fails with each of these, then works."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.tries = 0

    async def __call__(self) -> str:
        self.tries += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


async def test_the_bound_of_the_wait_doubles_up_to_its_ceiling():
    sleep = Jumping()
    retrying = Retrying(RetryPolicy(attempts=10, base=1, ceiling=20), None, sleep, jitter=lambda: 1.0)
    assert await retrying.run(Failing(*[down() for _ in range(7)])) == "done"
    assert sleep.slept == [1, 2, 4, 8, 16, 20, 20]


async def test_an_endpoint_that_is_down_for_days_is_waited_for():
    sleep = Jumping()
    retrying = Retrying(RetryPolicy(patience=float("inf")), None, sleep, jitter=lambda: 1.0)
    assert await retrying.run(Failing(*[down() for _ in range(2_000)])) == "done"
    assert sleep.slept[-1] == 60


async def test_the_jitter_is_full():
    sleep = Jumping()
    retrying = Retrying(RetryPolicy(), None, sleep, jitter=lambda: 0.0)
    await retrying.run(Failing(down(), down()))
    assert sleep.slept == [0, 0]


async def test_two_retriers_do_not_wait_alike():
    waits = []
    for _ in range(2):
        sleep = Jumping()
        await Retrying(RetryPolicy(), None, sleep).run(Failing(*[down() for _ in range(5)]))
        waits.append(sleep.slept)
    assert waits[0] != waits[1]


async def test_a_retry_after_is_never_cut_short():
    sleep = Jumping()
    await Retrying(RetryPolicy(), None, sleep).run(Failing(down(30.0), down(300.0)))
    assert 30.0 <= sleep.slept[0] <= 31.0
    assert 300.0 <= sleep.slept[1] <= 301.0


async def test_a_retry_after_of_nothing_still_backs_off():
    sleep = Jumping()
    await Retrying(RetryPolicy(), None, sleep, jitter=lambda: 1.0).run(Failing(down(0.0), down(0.0)))
    assert sleep.slept == [1.0, 2.0]


async def test_past_the_cap_the_run_stops_to_be_resumed():
    sleep = Jumping()
    attempt = Failing(down(301.0))
    with pytest.raises(RateLimited) as caught:
        await Retrying(RetryPolicy(), None, sleep).run(attempt)
    assert caught.value.retry_after == 301.0
    assert "5m01s" in caught.value.message
    assert "resumed" in caught.value.message
    assert (sleep.slept, attempt.tries) == ([], 1)


async def test_the_last_failure_is_what_it_ends_with():
    attempt = Failing(*[down() for _ in range(9)])
    with pytest.raises(ModelUnreachable, match="down"):
        await Retrying(RetryPolicy(attempts=4), None, Jumping()).run(attempt)
    assert attempt.tries == 4


async def test_a_failure_can_allow_fewer_tries():
    attempt = Failing(*[down(attempts=2) for _ in range(9)])
    with pytest.raises(ModelUnreachable):
        await Retrying(RetryPolicy(attempts=6), None, Jumping()).run(attempt)
    assert attempt.tries == 2


@pytest.mark.parametrize("error", [ModelRefused("no"), ValueError("ours"), asyncio.CancelledError()])
async def test_anything_else_passes_through_at_once(error):
    attempt = Failing(error)
    with pytest.raises(type(error)):
        await Retrying(RetryPolicy(), None, Jumping()).run(attempt)
    assert attempt.tries == 1


async def test_each_retry_is_told_before_its_wait():
    told: list[tuple[str, float]] = []
    sleep = Jumping()
    retrying = Retrying(
        RetryPolicy(), lambda reason, wait: told.append((reason, wait)), sleep, jitter=lambda: 0.5
    )
    await retrying.run(Failing(down(), down(10.0)))
    assert told == [("down", 0.5), ("down", 10.5)]
    assert sleep.slept == [0.5, 10.5]


async def test_an_endpoint_that_is_down_for_an_hour_is_waited_for_by_who_has_the_patience():
    sleep = Jumping()

    async def attempt() -> str:
        if sum(sleep.slept) < 3_600:
            raise down()
        return "done"

    with pytest.raises(ModelUnreachable):
        await Retrying(RetryPolicy(), None, sleep).run(attempt)
    assert 300 <= sum(sleep.slept) <= 360
    sleep.slept.clear()
    assert await Retrying(RetryPolicy(patience=7_200), None, sleep).run(attempt) == "done"
    assert max(sleep.slept) <= 60

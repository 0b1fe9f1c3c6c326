"""The jumping clock itself: if it lies, every other test of waiting does."""

import asyncio
import threading
import time

import pytest

from codeact_kernel.testing import EPOCH, JumpingLoop, jumping, run_jumping, wall


def test_ten_minutes_pass_at_once_and_the_clock_says_ten_minutes():
    async def main():
        await asyncio.sleep(600)
        return asyncio.get_running_loop().time(), wall()

    before = time.perf_counter()
    assert run_jumping(main()) == (pytest.approx(600), pytest.approx(EPOCH + 600))
    assert time.perf_counter() - before < 1


@jumping
async def test_sleepers_wake_in_the_order_of_their_times():
    woken = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        woken.append((seconds, asyncio.get_running_loop().time()))

    await asyncio.gather(*(sleeper(seconds) for seconds in (30, 1, 3600, 2)))
    assert woken == [(s, pytest.approx(s)) for s in (1, 2, 30, 3600)]


@jumping
async def test_time_stands_still_while_something_is_ready():
    for _ in range(1000):
        await asyncio.sleep(0)
    assert asyncio.get_running_loop().time() == 0


@jumping
async def test_a_deadline_ends_what_never_ends():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(86_400 * 3):
            await asyncio.Event().wait()
    assert asyncio.get_running_loop().time() == pytest.approx(86_400 * 3)


@jumping
async def test_time_stands_still_while_a_thread_works():
    async def tick():
        await asyncio.sleep(3600)
        return "timer"

    timer = asyncio.create_task(tick())
    gate = threading.Event()
    asyncio.get_running_loop().call_soon(gate.set)
    await asyncio.to_thread(gate.wait, 10)
    assert asyncio.get_running_loop().time() == 0
    assert not timer.done()
    await timer
    assert asyncio.get_running_loop().time() == pytest.approx(3600)


def test_a_wait_that_nothing_can_end_is_an_error_and_no_hang(monkeypatch):
    monkeypatch.setattr("codeact_kernel.testing.clock.PATIENCE", 0.01)

    async def main():
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="hang for ever"):
        run_jumping(main())


@jumping
async def test_a_foreign_thread_can_still_wake_the_loop():
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()
    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(woken.set,))
    thread.start()
    await woken.wait()
    thread.join()


def test_the_wall_clock_of_a_plain_loop_is_refused():
    async def main():
        return wall()

    with pytest.raises(RuntimeError, match="JumpingLoop"):
        asyncio.run(main())


@pytest.mark.parametrize("given", [1, 2])
@jumping
async def test_a_jumping_test_takes_its_parameters_and_fixtures(given, tmp_path):
    assert given in (1, 2)
    assert tmp_path.is_dir()
    assert isinstance(asyncio.get_running_loop(), JumpingLoop)

"""Many blocks at once, and interrupts at any instant."""

from __future__ import annotations

import asyncio
import random

import pytest

from codeact_kernel.blocks import DisplayOutput, ResultOutput

pytestmark = pytest.mark.stress


async def each(count, width, one):
    """Run `one(number)` for each number, `width` at once."""
    gate = asyncio.Semaphore(width)

    async def gated(number):
        async with gate:
            await one(number)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(gated(number))


async def test_lines_values_and_plots_are_with_their_own_blocks(bench, times):
    await bench.run("import asyncio, matplotlib.pyplot as plt")
    lanes = set()

    async def one(number):
        wait = "await asyncio.sleep(0)\n" if number % 2 else ""
        kind = number % 3
        code = (f"print('line {number}')", f"'value {number}'", f"plt.plot([1, {number}]);")[kind]
        block = await bench.run(wait + code)
        lanes.add(block.lane)
        assert block.outcome.missing == 0
        assert block.text == (f"line {number}\n" if kind == 0 else "")
        values = [o.data["text/plain"] for o in block.outputs if isinstance(o, ResultOutput)]
        assert values == ([f"'value {number}'"] if kind == 1 else [])
        pictures = [o for o in block.outputs if isinstance(o, DisplayOutput)]
        assert len(pictures) == (kind == 2)

    await each(times(150, 1000), 8, one)
    assert lanes == {"main", "async", "worker"}


async def test_no_printing_block_comes_back_empty(bench, times):
    await bench.run("import asyncio")

    async def one(number):
        code = f"print({number})" if number % 2 else f"await asyncio.sleep(0)\nprint({number})"
        block = await bench.run(code)
        assert block.text == f"{number}\n"

    await each(times(1000, 10_000), 8, one)


CODES = {
    "main": "import time\nfor _ in range(4): time.sleep(0.002)",
    "worker": "n = 0\nfor i in range(100000): n += i",
    "async": "import asyncio\nfor _ in range(4): await asyncio.sleep(0.002)",
}


@pytest.mark.parametrize("lane", CODES)
async def test_interrupts_at_random_instants_hit_their_block_or_nobody(bench, lane, times):
    chance = random.Random(11)
    pin = None if lane == "async" else lane
    await bench.run("over = False")
    beside, beside_task = bench.start(
        "import asyncio\nwhile not over: await asyncio.sleep(0.01)", id="beside"
    )
    ends, wanted = [], times(150, 1000)
    # On a busy machine most come before the code begins or after its end, so until a tenth has hit it.
    async with asyncio.timeout(wanted):
        while len(ends) < wanted or ends.count("error") <= wanted / 10:
            name = f"i{len(ends)}"
            _, task = bench.start(CODES[lane], id=name, lane=pin)
            await asyncio.sleep(chance.random() * 0.015)
            await bench.runner.interrupt(name)
            async with asyncio.timeout(20):
                block = await task
            ends.append(block.status)
            assert block.status in ("ok", "error", "cancelled")
            assert "KeyboardInterrupt" in block.error or block.status != "error"
    assert beside.outcome is None
    await bench.run("over = True")
    async with asyncio.timeout(10):
        assert (await beside_task).status == "ok"


WAITS = {
    "main": "threading.Event().wait()",
    "worker": "threading.Event().wait()",
    "async": "await asyncio.Event().wait()",
}


@pytest.mark.parametrize("lane", WAITS)
async def test_no_interrupt_is_lost_that_comes_as_a_block_begins_to_wait(bench, lane, times):
    chance = random.Random(13)
    await bench.run("import asyncio, threading")
    for number in range(times(300, 10_000 if lane == "main" else 1000)):
        waiting, task = bench.start(WAITS[lane], id=f"w{number}", lane=None if lane == "async" else lane)
        await waiting.running.wait()
        await asyncio.sleep(chance.random() * 0.003)
        await bench.runner.interrupt(f"w{number}")
        async with asyncio.timeout(10):
            assert "KeyboardInterrupt" in (await task).error


async def test_interrupt_then_run_again_never_hangs(bench, times):
    for number in range(times(40, 200)):
        lane = ("main", "worker", None)[number % 3]
        code = "import asyncio\nawait asyncio.sleep(60)" if lane is None else "while True: pass"
        stuck, task = bench.start(code, id=f"s{number}", lane=lane)
        await stuck.running.wait()
        await bench.runner.interrupt(f"s{number}")
        async with asyncio.timeout(10):
            assert (await task).status == "error"
            assert (await bench.run(f"print({number})", lane=lane)).text == f"{number}\n"

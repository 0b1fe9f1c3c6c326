"""One interrupt, one block, at any instant."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

pytestmark = pytest.mark.kernel

STUCK = {
    "main": ("import time\nprint('on', flush=True)\ntime.sleep(60)", "main"),
    "main, busy": ("print('on', flush=True)\nwhile True: pass", "main"),
    "main, child": ("import subprocess\nprint('on', flush=True)\nsubprocess.run(['sleep', '60'])", "main"),
    "main, lock": (
        "import threading\nprint('on', flush=True)\nthreading.Lock().acquire() and threading.Event().wait()",
        "main",
    ),
    "worker, busy": ("print('on', flush=True)\nwhile True: pass", "worker"),
    "worker, asyncio.run": (
        "import asyncio\nprint('on', flush=True)\nasyncio.run(asyncio.sleep(60))",
        "worker",
    ),
    "async": ("import asyncio\nprint('on', flush=True)\nawait asyncio.sleep(60)", None),
    "async, for ever": ("import asyncio\nprint('on', flush=True)\nawait asyncio.Event().wait()", None),
    "async, synchronous": (
        "import asyncio\nawait asyncio.sleep(0)\nprint('on', flush=True)\nwhile True: pass",
        None,
    ),
    "async, gather": (
        "import asyncio\nprint('on', flush=True)\nawait asyncio.gather(*[asyncio.sleep(60) for _ in range(5)])",
        None,
    ),
}


@pytest.mark.parametrize("name", STUCK)
async def test_an_interrupt_ends_the_block_it_names_and_no_other(bench, name):
    code, lane = STUCK[name]
    _, beside_task = bench.start("import asyncio\nawait asyncio.sleep(1.2)\nprint('whole')", id="beside")
    stuck, stuck_task = bench.start(code, id="stuck", lane=lane)
    await stuck.spoke.wait()
    begun = time.monotonic()
    await bench.runner.interrupt("stuck")
    async with asyncio.timeout(10):
        await stuck_task
    assert time.monotonic() - begun < 3
    assert stuck.status == "error"
    assert "KeyboardInterrupt" in stuck.error
    assert stuck.text == "on\n"
    assert (await beside_task).text == "whole\n"
    assert (await bench.run("print('next')", lane=lane)).text == "next\n"


async def test_a_block_that_waits_is_cancelled_before_it_starts(bench):
    first, first_task = bench.start("import time\ntime.sleep(0.5)\nrows = 1", id="a", reply=1)
    _, second_task = bench.start("print(rows)", id="b", reply=1)
    await first.running.wait()
    await bench.runner.interrupt("b")
    second = await second_task
    assert second.status == "cancelled"
    assert second.lane is None
    assert (await first_task).status == "ok"


async def test_an_interrupt_after_the_end_hits_nobody(bench):
    _, task = bench.start("x = 1", id="a")
    await task
    await bench.runner.interrupt("a")
    assert (await bench.run("import time\ntime.sleep(0.2)\nprint('whole')")).text == "whole\n"


@pytest.mark.parametrize("lane", ["main", "worker", "async"])
async def test_interrupts_at_random_instants_leave_every_block_with_one_end(bench, lane):
    chance = random.Random(7)
    code = {
        "main": "import time\nfor _ in range(3): time.sleep(0.002)",
        "worker": "n = sum(i for i in range(200000))",
        "async": "import asyncio\nfor _ in range(3): await asyncio.sleep(0.002)",
    }[lane]
    ends = []
    for number in range(60):
        _, task = bench.start(code, id=f"i{number}", lane=None if lane == "async" else lane)
        await asyncio.sleep(chance.random() * 0.012)
        await bench.runner.interrupt(f"i{number}")
        async with asyncio.timeout(10):
            ends.append((await task).status)
    assert set(ends) <= {"ok", "error", "cancelled"}
    assert "error" in ends
    after = await bench.run("print('whole')", lane=None if lane == "async" else lane)
    assert (after.status, after.text) == ("ok", "whole\n")


async def test_an_exception_of_any_kind_in_a_task_does_not_end_the_async_lane(bench):
    await bench.run("import asyncio\nasync def leave(kind):\n    raise kind('out')")
    for kind in ("SystemExit", "KeyboardInterrupt", "ValueError", "asyncio.CancelledError"):
        await bench.run(f"t = asyncio.create_task(leave({kind}))\nawait asyncio.sleep(0.05)")
        await bench.run(f"asyncio.get_running_loop().call_soon(lambda: (_ for _ in ()).throw({kind}('out')))")
    assert (await bench.run("await asyncio.sleep(0.01)\nprint('alive')")).text == "alive\n"

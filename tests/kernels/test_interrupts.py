"""One interrupt, one block, at any instant."""

from __future__ import annotations

import asyncio
import random
import time

import psutil
import pytest

pytestmark = pytest.mark.kernel

DROPS = """
import time
class Dropped:
    def __del__(self):
        time.sleep(0.001)
        for _ in range(100_000): pass
print('on', flush=True)
while True: Dropped()
"""
REFERS = """
import time, weakref
class Dropped: pass
def told(reference):
    time.sleep(0.01)
print('on', flush=True)
while True:
    dropped = Dropped()
    reference = weakref.ref(dropped, told)
    del dropped
    time.sleep(0)
"""

STUCK = {
    "main": ("import time\nprint('on', flush=True)\ntime.sleep(60)", "main"),
    "main, busy": ("print('on', flush=True)\nwhile True: pass", "main"),
    "main, child": ("import subprocess\nprint('on', flush=True)\nsubprocess.run(['sleep', '60'])", "main"),
    "main, lock": (
        "import threading\nprint('on', flush=True)\nthreading.Lock().acquire() and threading.Event().wait()",
        "main",
    ),
    "main, about to wait": (
        # No bytecode lies between the two calls, where the interpreter would look for the signal.
        """
import functools, hashlib, operator, threading
lock = threading.Lock()
lock.acquire()
compute = functools.partial(hashlib.pbkdf2_hmac, "sha256", b"", b"", 500_000)
print('on', flush=True)
list(map(operator.call, [compute, lock.acquire]))
""",
        "main",
    ),
    "main, in a __del__": (DROPS, "main"),
    "main, in a callback": (REFERS, "main"),
    "worker, in a __del__": (DROPS, "worker"),
    "worker, in a callback": (REFERS, "worker"),
    "async, in a __del__": (f"import asyncio\nawait asyncio.sleep(0)\n{DROPS}", None),
    "async, in a callback": (f"import asyncio\nawait asyncio.sleep(0)\n{REFERS}", None),
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


async def test_an_interrupt_that_comes_while_another_block_holds_the_loop_ends_the_block_it_names(bench):
    await bench.run("import asyncio, time\ngo = asyncio.Event()")
    holder, holder_task = bench.start(
        "await go.wait()\nprint('held', flush=True)\ntime.sleep(1)\nprint('whole')", id="holder"
    )
    await holder.running.wait()
    # Woken by the same event, it has its next step to make before the loop comes to cancel it.
    stuck, stuck_task = bench.start(
        "print('on', flush=True)\nif True:\n    await go.wait()\n    time.sleep(60)", id="stuck"
    )
    await stuck.spoke.wait()
    await bench.run("go.set()", id="go", lane="async")
    await holder.spoke.wait()
    await bench.runner.interrupt("stuck")
    async with asyncio.timeout(10):
        await stuck_task
    assert "KeyboardInterrupt" in stuck.error
    assert (await holder_task).text == "held\nwhole\n"


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
    # On a busy machine most come before the code begins or after its end, so until one has hit it.
    async with asyncio.timeout(100):
        while len(ends) < 60 or "error" not in ends:
            name = f"i{len(ends)}"
            _, task = bench.start(code, id=name, lane=None if lane == "async" else lane)
            await asyncio.sleep(chance.random() * 0.012)
            await bench.runner.interrupt(name)
            async with asyncio.timeout(10):
                ends.append((await task).status)
    assert set(ends) <= {"ok", "error", "cancelled"}
    after = await bench.run("print('whole')", lane=None if lane == "async" else lane)
    assert (after.status, after.text) == ("ok", "whole\n")


async def test_an_exception_of_any_kind_in_a_task_does_not_end_the_async_lane(bench):
    await bench.run("import asyncio\nasync def leave(kind):\n    raise kind('out')")
    for kind in ("SystemExit", "KeyboardInterrupt", "ValueError", "asyncio.CancelledError"):
        await bench.run(f"t = asyncio.create_task(leave({kind}))\nawait asyncio.sleep(0.05)")
        await bench.run(f"asyncio.get_running_loop().call_soon(lambda: (_ for _ in ()).throw({kind}('out')))")
    assert (await bench.run("await asyncio.sleep(0.01)\nprint('alive')")).text == "alive\n"


async def test_an_interrupt_while_a_child_is_being_started_ends_the_block(bench):
    await bench.run("import asyncio")
    code = "await asyncio.sleep(0)\np = await asyncio.create_subprocess_exec('sleep', '60')\nawait p.wait()"
    for number in range(30):
        _, task = bench.start(code, id=f"c{number}", after=())
        await asyncio.sleep(number / 5000)
        await bench.runner.interrupt(f"c{number}")
        async with asyncio.timeout(10):
            assert (await task).status in ("error", "cancelled")


@pytest.mark.parametrize("where", ["worker", "a thread of the block"])
async def test_interrupts_at_random_instants_of_a_fork_leave_no_second_kernel(bench, where):
    code = "    while True:\n        pid = os.fork()\n        if not pid: os._exit(0)\n        os.waitpid(pid, 0)\n"
    await bench.run(f"import os, threading\ndef fork():\n    print('on', flush=True)\n{code}")
    call = "fork()" if where == "worker" else "t = threading.Thread(target=fork); t.start(); t.join()"
    for number in range(20):
        heard, task = bench.start(call, id=f"f{number}", lane="worker")
        await heard.spoke.wait()
        await asyncio.sleep(number / 3000)
        async with asyncio.timeout(10):
            await bench.runner.interrupt(f"f{number}")
            await task
    left = psutil.Process(bench.kernel.pid).children(recursive=True)
    assert [child for child in left if child.status() != psutil.STATUS_ZOMBIE] == []


async def test_a_signal_of_the_host_means_the_request_that_it_notes_and_no_other(bench):
    on_main, main_task = bench.start(
        "import time\nprint('on', flush=True)\ntime.sleep(1.5)\nprint('whole')", id="m", lane="main"
    )
    in_worker, worker_task = bench.start(
        "import time\nprint('on', flush=True)\ntime.sleep(60)", id="w", lane="worker"
    )
    await on_main.spoke.wait()
    await in_worker.spoke.wait()
    ids = {name: msg_id for msg_id, name in bench.runner._blocks.items()}
    await bench.kernel.interrupt_by_signal(ids["w"])
    assert "KeyboardInterrupt" in (await worker_task).error
    assert (await main_task).text == "on\nwhole\n"
    again, again_task = bench.start("print('on', flush=True)\ntime.sleep(60)", id="m2", lane="main")
    await again.spoke.wait()
    ids = {name: msg_id for msg_id, name in bench.runner._blocks.items()}
    await bench.kernel.interrupt_by_signal(ids["m2"])
    assert "KeyboardInterrupt" in (await again_task).error


@pytest.mark.parametrize("lane", ["main", "worker", "async"])
async def test_code_is_profiled_and_traced_after_blocks_and_interrupts_in_every_lane(bench, lane):
    await bench.run("import asyncio")
    await bench.run("await asyncio.sleep(0)")
    await bench.run("pass", lane="worker")
    for stuck in ("await asyncio.sleep(60)", "while True: pass"):
        watched, task = bench.start(stuck, id=f"stuck {stuck}", lane=None if "await" in stuck else "worker")
        await watched.running.wait()
        await bench.runner.interrupt(f"stuck {stuck}")
        await task
    block = await bench.run("%%prun\nsum(range(10))", lane=lane)
    assert block.status == "ok"
    traced = "import sys\nseen = []\nsys.settrace(lambda *event: seen.append(event[1]))\n"
    block = await bench.run(
        traced + "max([1], key=lambda x: x)\nsys.settrace(None)\nprint(len(seen) > 0)", lane=lane
    )
    assert block.text == "True\n"


@pytest.mark.parametrize("lane", ["worker", "async"])
async def test_an_interrupt_while_a_thread_is_being_started_ends_the_block(bench, lane):
    await bench.run("import asyncio, threading")
    code = "while True:\n    t = threading.Thread(target=int)\n    t.start()\n    t.join()"
    for number in range(12):
        watched, task = bench.start(f"print('on')\n{code}", id=f"t{number}", lane=lane)
        await watched.spoke.wait()
        await bench.runner.interrupt(f"t{number}")
        async with asyncio.timeout(10):
            assert (await task).status == "error"
        assert watched.text == "on\n"

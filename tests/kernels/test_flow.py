"""A block that prints faster than its host reads."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from faulty_wire import Fault, put_between

from codeact_kernel.blocks import DisplayOutput

pytestmark = pytest.mark.kernel

LANES = {
    "main": ("main", ""),
    "worker": ("worker", ""),
    "async": (None, "import asyncio\nawait asyncio.sleep(0)\n"),
}


@pytest.fixture
async def deaf(open_bench):
    """A bench whose confirmations never reach the kernel."""
    made = await open_bench()
    with tempfile.TemporaryDirectory(prefix="ck-") as folder:
        made.wire = await put_between(made.kernel, f"{folder}/s")
        made.wire.reset(Fault("codeact_ack"))
        yield made
        await made.kernel.client.aclose()
        await made.wire.aclose()


@pytest.mark.parametrize("lane", LANES)
async def test_a_writer_that_waits_for_its_reader_is_interrupted_and_nothing_is_lost(deaf, lane):
    lane, start = LANES[lane]
    code = (
        start + "n = 0\ntry:\n    while True:\n        print(f'{n:06}', 'x' * 99_992)\n        n += 1\n"
        "finally:\n    print('\\nended at', n)"
    )
    watched, task = deaf.start(code, id="flood", lane=lane)
    async with asyncio.timeout(20):
        while deaf.wire.seen["stream"] < 10:
            await asyncio.sleep(0.01)
        if lane is not None:
            # Its window is full now. It waits, and others go on.
            begun = time.monotonic()
            assert (await deaf.run("print('beside')", lane="worker")).text == "beside\n"
            assert time.monotonic() - begun < 1
        begun = time.monotonic()
        await deaf.runner.interrupt("flood")
        await task
        assert time.monotonic() - begun < 2
    assert "KeyboardInterrupt" in watched.error
    *lines, _, end, _ = watched.text.split("\n")
    last = int(end.removeprefix("ended at "))
    assert [int(line[:6]) for line in lines[:last]] == list(range(last))
    assert {len(line) for line in lines[:last]} == {99_999}
    assert watched.outcome.missing == 0
    deaf.wire.reset()
    assert (await deaf.run("print('next')", lane=lane)).text == "next\n"


async def test_a_host_that_is_busy_for_seconds_slows_nobody_for_longer_than_that_and_has_all_of_it(bench):
    code = (
        "import time\nbegun = time.time()\nprint('on', flush=True)\n"
        "for n in range(600): print(f'{n:06}', 'x' * 99_992)\nprint('took', time.time() - begun)"
    )
    watched, task = bench.start(code)
    await watched.spoke.wait()
    time.sleep(7)  # noqa: ASYNC251 - the loop is to be blocked
    async with asyncio.timeout(30):
        await task
    on, *lines, took, _ = watched.text.split("\n")
    assert on == "on"
    assert [int(line[:6]) for line in lines] == list(range(600))
    assert watched.outcome.missing == 0
    assert 2.5 < float(took.split()[1]) < 6.5


async def test_a_fast_block_is_not_ahead_of_a_host_that_reads(bench):
    """No file is needed for a hundred megabytes as long as the host reads."""
    spools = (
        "import gc\nfrom codeact_kernel.inkernel.spool import Spool\n"
        "[s for s in gc.get_objects() if isinstance(s, Spool) and s._file is not None]"
    )
    block = await bench.run("for n in range(1000): print('x' * 100_000)")
    assert len(block.text) == 1000 * 100_001
    assert (await bench.run(spools)).value == "[]"
    assert block.outcome.missing == 0


async def test_eight_floods_at_once_in_all_lanes_are_whole_and_in_order(bench):
    tasks = []
    for number in range(8):
        lane, start = list(LANES.values())[number % 3]
        code = (
            start + f"import sys\ndef flood{number}():\n    for n in range(3000):\n"
            f"        print('{number}', n, 'x' * 1000)\n        if n % 100 == 0:\n"
            f"            print('e', file=sys.stderr)\n            display(n)\nflood{number}()"
        )
        tasks.append(bench.start(code, id=f"f{number}", lane=lane, after=())[1])
    async with asyncio.timeout(60):
        blocks = await asyncio.gather(*tasks)
    for number, block in enumerate(blocks):
        said = "".join(o.text for o in block.outputs if getattr(o, "name", "") == "stdout")
        assert said == "".join(f"{number} {n} {'x' * 1000}\n" for n in range(3000))
        shown = [o.data["text/plain"] for o in block.outputs if isinstance(o, DisplayOutput)]
        assert shown == [str(n) for n in range(0, 3000, 100)]
        assert block.outcome.missing == 0


async def test_a_burst_of_twenty_thousand_displays_loses_none(bench):
    code = "for n in range(20_000): display({'text/plain': f'{n:01000}'}, raw=True)"
    block = await bench.run(code)
    assert [int(o.data["text/plain"]) for o in block.outputs] == list(range(20_000))


async def test_a_hundred_thousand_states_of_a_progress_bar_are_few_messages(bench):
    code = "import sys\nfor n in range(100_000): print(f'\\r{n // 1000}% of {n}', end='', file=sys.stderr, flush=True)"
    block = await bench.run(code)
    assert len(block.outputs) < 500
    assert block.outputs[-1].text.endswith("\r99% of 99999")


async def test_ten_thousand_flushed_writes_keep_their_tail(bench):
    block = await bench.run("for n in range(10_000): print('x' * 99, flush=True)\nprint('hi')")
    assert block.text == ("x" * 99 + "\n") * 10_000 + "hi\n"


async def test_a_thread_that_floods_after_the_end_is_late_output_and_whole(bench):
    code = (
        "import threading\ndef flood():\n    for n in range(200): print(f'{n:06}', 'x' * 99_992)\n    print('last')\n"
        "threading.Thread(target=flood).start()"
    )
    block = await bench.run(code)
    async with asyncio.timeout(30):
        while not block.text.endswith("last\n"):
            block.spoke.clear()
            await block.spoke.wait()
    assert block.text == "".join(f"{n:06} {'x' * 99_992}\n" for n in range(200)) + "last\n"


HOST = """
import asyncio, sys, hashlib
from pathlib import Path
from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.kernels import Kernel, KernelRunner, KernelSettings
from codeact_kernel.supervisor import Supervisor

async def main():
    async with Kernel(KernelSettings(cwd=Path(sys.argv[1]))) as kernel:
        async with Supervisor({CodeBlock: KernelRunner(kernel)}, lambda event: None) as supervisor:
            code = (
                "import time\\nbegun = time.time()\\nprint('on')\\ntime.sleep(0.5)\\n"
                "for n in range(500): print(f'{n:06}', 'x' * 99_992)\\n"
                "print(time.time() - begun)"
            )
            supervisor.launch(Job("b1", CodeBlock(code), 1), 1)
            while not supervisor.output("b1"):
                await asyncio.sleep(0.01)
            print("on", flush=True)
            await supervisor.settled()
            on, *lines, took, _ = supervisor.output("b1").split("\\n")
            assert lines == [f"{n:06} {'x' * 99_992}" for n in range(500)], len(lines)
            result = supervisor.results["b1"]
            print(result.status, result.outcome.missing, took, flush=True)

asyncio.run(main())
"""


def test_a_host_that_was_stopped_for_seconds_has_everything_afterwards(tmp_path):
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert host.stdout.readline() == "on\n"
        os.kill(host.pid, signal.SIGSTOP)
        time.sleep(7)
        os.kill(host.pid, signal.SIGCONT)
        out, err = host.communicate(timeout=40)
    finally:
        host.kill()
    status, missing, took = out.split()
    assert (status, missing) == ("ok", "0"), err
    # It waited for the host for as long as a host may be silent, and then went on without it.
    assert 3 < float(took) < 6.5

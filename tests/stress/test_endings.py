"""Blocks that have to end, again and again, with everything that a block or the machine can do against it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from pathlib import Path

import pytest

from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.supervisor import Supervisor

pytestmark = pytest.mark.stress

HEAD = "import asyncio, os, signal, subprocess, sys, threading, time\n"
SWALLOW = "while True:\n    try: time.sleep(100)\n    except BaseException: pass"
HOG = "x = 10 ** (10 ** 8)"
BOUND = 6.5
"""Five seconds are promised, from the deadline on; the rest is for a loaded machine."""


class Stage:
    """Runs blocks with deadlines."""

    def __init__(self, runner):
        self.supervisor = Supervisor({CodeBlock: runner}, lambda event: None)
        self._count = 0

    def start(self, code, **attributes):
        self._count += 1
        name = f"b{self._count}"
        self.supervisor.launch(Job(name, CodeBlock(HEAD + code, **attributes), self._count), self._count)
        return name

    async def end(self, name):
        ended = self.supervisor._watches[name].ended
        await asyncio.wait({ended}, timeout=30)
        return ended.result()

    async def run(self, code, **attributes):
        return await self.end(self.start(code, **attributes))

    async def works(self, lane=None):
        result = await self.run("print('next')", lane=lane)
        assert (result.status, text(result)) == ("ok", "next\n"), result


@pytest.fixture
async def stage(bench):
    stage = Stage(bench.runner)
    async with stage.supervisor:
        yield stage


def text(result):
    return "".join(getattr(output, "text", "") for output in result.outputs)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("lane", ["main", "worker"])
@pytest.mark.parametrize("code", [SWALLOW, HOG], ids=["swallows", "holds the interpreter"])
async def test_what_does_not_want_to_end_is_ended_again_and_again_and_the_next_block_works(
    stage, times, code, lane
):
    for _ in range(times(3, 50)):
        result = await stage.run("print('on')\ntime.sleep(0.2)\n" + code, lane=lane, timeout=0.5)
        assert (result.status, text(result)) == ("timeout", "on\n")
        assert result.duration < 0.5 + BOUND
        await stage.works(lane)


async def test_beside_other_blocks_what_nothing_ends_is_cut_off_again_and_again(stage, times):
    await stage.run("over = False")
    beside = stage.start("n = 0\nwhile not over: n += 1; await asyncio.sleep(0.01)\nprint(n > 0)")
    for _ in range(times(2, 20)):
        result = await stage.run("r, w = os.pipe()\nos.read(r, 1)", lane="worker", timeout=0.2)
        assert (result.status, result.duration < BOUND) == ("timeout", True)
        assert "cut off" in str(result.outcome.notes)
        await stage.works("worker")
    await stage.run("over = True")
    assert text(await stage.end(beside)) == "True\n"


async def test_a_kernel_that_is_killed_at_any_instant_is_known_within_a_second_and_decoded(
    stage, bench, times
):
    chance = random.Random(5)
    for number in range(times(3, 30)):
        await stage.run(f"kept_{number} = 1")
        name = stage.start("for i in range(10**6): print(i)\ntime.sleep(60)")
        await asyncio.sleep(chance.random() * 0.3)
        begun = time.monotonic()
        os.kill(bench.kernel.pid, signal.SIGKILL)
        result = await stage.end(name)
        assert time.monotonic() - begun < 3
        assert result.status == "died"
        assert "SIGKILL" in result.outcome.error
        await stage.works()


async def test_a_kernel_that_is_stopped_is_replaced(stage, bench, times):
    for _ in range(times(1, 10)):
        name = stage.start("time.sleep(60)", timeout=0.5)
        await stage.supervisor._watches[name].began
        os.kill(bench.kernel.pid, signal.SIGSTOP)
        result = await stage.end(name)
        assert (result.status, result.duration < 0.5 + BOUND) == ("timeout", True)
        await stage.works()


async def test_children_in_sessions_of_their_own_are_gone_with_their_blocks(stage, times):
    shell = "trap '' INT TERM; sleep 60 & echo $!; wait"
    code = f"for i in range(3): subprocess.Popen(['setsid', 'sh', '-c', {shell!r}])\ntime.sleep(60)"
    for _ in range(times(2, 20)):
        names = [stage.start(code, timeout=1, after=()) for _ in range(5)]
        results = [await stage.end(name) for name in names]
        for result in results:
            pids = [int(line) for line in text(result).split()]
            assert (result.status, len(pids)) == ("timeout", 3)
            assert not [pid for pid in pids if is_alive(pid)]
        await stage.works()


async def test_a_storm_of_threads_that_swallow_interrupts_is_ended(stage, times):
    code = (
        "def stay():\n    while True:\n        try: time.sleep(0.01)\n        except BaseException: pass\n"
        "threads = [threading.Thread(target=stay) for _ in range(50)]\nfor t in threads: t.start()\n"
        "for t in threads: t.join()"
    )
    for number in range(times(2, 20)):
        lane = ("main", "worker")[number % 2]
        result = await stage.run(code, lane=lane, timeout=0.5)
        assert (result.status, result.duration < 0.5 + BOUND) == ("timeout", True)
        alive = await stage.run("print(sum(t.is_alive() for t in threads))")
        assert text(alive) == "0\n"


async def test_a_flood_that_is_cut_short_is_complete_to_its_end(stage, times):
    for number in range(times(3, 30)):
        result = await stage.run("i = 0\nwhile True: print(i); i += 1", timeout=0.2 + number % 5 / 10)
        assert (result.status, result.outcome.missing) == ("timeout", 0)
        whole = stage.supervisor.output(result.id).splitlines()
        numbers = [line for line in whole if line.isdigit()]
        assert numbers == [str(i) for i in range(len(numbers))]
        await stage.works()

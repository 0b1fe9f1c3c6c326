"""`self` in a block: what runs, what outlives its block, a fresh kernel."""

from __future__ import annotations

import asyncio
import os

import pytest

pytestmark = pytest.mark.kernel

HEAD = "import asyncio, subprocess, threading, time\n"


@pytest.fixture
async def agent(open_bench):
    """A kernel with a host that kills it when asked to."""

    async def serve(name, args, kwargs, msg_id, note):
        assert name == "self.restart"
        await agent.kernel.kill("was restarted, because a block asked for it")

    agent = await open_bench(serve=serve)
    return agent


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_the_processes_are_listed_with_their_blocks(agent):
    await agent.run(HEAD + "server = subprocess.Popen(['sleep', '81'])", id="one")
    listed = await agent.run("found = self.processes\nprint(found, server.pid)")
    pid = int(listed.text.split()[-1])
    assert listed.text == f"{[{'pid': pid, 'command': 'sleep 81', 'block': 'one'}]} {pid}\n"
    ended = await agent.run("server.kill()\nserver.wait()\nprint(self.processes)")
    assert ended.text == "[]\n"


@pytest.mark.parametrize("lane", ["main", "worker", "async"])
async def test_what_is_handed_over_outlives_its_block(agent, lane):
    code = (
        HEAD
        + "async def tick():\n    while True:\n        await asyncio.sleep(0.05); ticks.append('task')\n"
        + "def tock():\n    while True:\n        time.sleep(0.05); ticks.append('thread')\n"
        + "ticks = []\ntask = self.background(tick())\nthread = self.background(tock)\n"
        + "print(self.background(subprocess.Popen(['sleep', '82'])).pid, flush=True)\n"
    )
    wait = "await asyncio.sleep(60)" if lane == "async" else "time.sleep(60)"
    stuck, task = agent.start(code + wait, id="stuck", lane=None if lane == "async" else lane)
    await stuck.spoke.wait()
    for insistence in (0, 1, 2):
        await agent.runner.interrupt("stuck", insistence)
    async with asyncio.timeout(20):
        assert (await task).status == "error"
    assert is_alive(int(stuck.text))
    alive = await agent.run(
        "ticks.clear()\nwhile len(set(ticks)) < 2: await asyncio.sleep(0.02)\nprint(task.done(), thread.is_alive())"
    )
    assert alive.text == "False True\n"


async def test_what_stands_for_nothing_that_runs_is_refused(agent):
    block = await agent.run("self.background(3)")
    assert "TypeError: a int is no process, thread, task, coroutine or function" in block.error


async def test_a_restart_ends_all_blocks_and_the_next_one_is_told(agent):
    await agent.run("kept = 1")
    beside, beside_task = agent.start(HEAD + "print('on', flush=True)\ntime.sleep(60)", id="beside")
    await beside.spoke.wait()
    _, asking_task = agent.start("self.restart()", id="asking", lane="worker")
    for task in (beside_task, asking_task):
        with pytest.raises(Exception, match="was restarted, because a block asked for it") as died:
            await task
        assert (
            died.value.lost == ("asyncio", "kept", "subprocess", "threading", "time")
            or "kept" in died.value.lost
        )
    fresh = await agent.run("print('kept' in globals())")
    assert fresh.text == "False\n"
    assert "fresh kernel" in fresh.outcome.notes[0]

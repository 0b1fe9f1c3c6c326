"""The clock on the wall jumps while deadlines run: nothing ends early, late or never."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.events import Heartbeat
from codeact_kernel.supervisor import Supervisor
from codeact_kernel.testing import EPOCH, FakeRunner, jumping

DAY = 86_400.0


@pytest.mark.parametrize("jumps", [(0.0, DAY), (0.0, -DAY), (0.0, 30 * DAY, -30 * DAY)])
@jumping
async def test_deadlines_and_heartbeats_do_not_go_by_the_clock_on_the_wall(jumps):
    events, beats = [], []
    loop, wall = asyncio.get_running_loop(), itertools.cycle(EPOCH + jump for jump in jumps)

    def emit(event):
        events.append(event)
        if isinstance(event, Heartbeat):
            beats.append(loop.time())

    async with Supervisor({CodeBlock: FakeRunner()}, emit, wall=lambda: next(wall)) as supervisor:
        code = "\n".join(["sleep(2)", 'print("x")'] * 20)
        supervisor.launch(Job("a", CodeBlock(code, timeout=11, heartbeat=5), 1), turn=1)
        await supervisor.settled()
        assert supervisor.results["a"].status == "timeout"
        assert 11 <= loop.time() < 17
        assert beats
        assert abs(beats[0] - 5) < 1

"""Servers that are started, used, cancelled and closed at random instants."""

from __future__ import annotations

import asyncio
import random

import pytest

from codeact_kernel.errors import ToolError

pytestmark = pytest.mark.kernel
MODES = ["", "", "", "mute", "dies", "pages"]
CALLS = [
    ("echo", {}),
    ("sleep", {"seconds": 0.1}),
    ("die", {}),
    ("spawn", {}),
    ("broken", {}),
    ("garbage", {}),
    ("big", {"size": 2_000_000}),
]


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_comes_together_nothing_hangs_and_nothing_is_left(program, seed):
    chance = random.Random(seed)

    async def use(raw):
        try:
            await asyncio.sleep(chance.random() * 0.1)
            tools = await raw.tools()
            for name, arguments in chance.choices(CALLS, k=3):
                if name in tools:
                    await tools[name].function(**arguments)
        except ToolError:
            return

    for number in range(8):
        times = {
            "start_timeout": chance.choice([0.1, 0.3, 5]),
            "timeout": chance.choice([0.05, 0.5, 5]),
            "max_result": 1_000_000,
        }
        raw = program(chance.choice(MODES), name=f"raw{number}", **times)
        users = [asyncio.create_task(use(raw)) for _ in range(6)]
        for user in users:
            if chance.random() < 0.4:
                asyncio.get_running_loop().call_later(chance.random() * 0.4, user.cancel)
        await asyncio.sleep(chance.random() * 0.6)
        await raw.aclose()
        async with asyncio.timeout(20):
            ended = await asyncio.gather(*users, return_exceptions=True)
        assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ended)

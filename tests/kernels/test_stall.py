"""One block with await that runs code without holds the others up: they are named, and their deadlines stand still."""

from __future__ import annotations

import pytest

from codeact_kernel.events import BlockHeld

pytestmark = pytest.mark.kernel


async def test_who_holds_the_loop_is_named_and_the_others_deadlines_stand_still(stage):
    stage.launch("slow", "print('on', flush=True)\nawait asyncio.sleep(1.5)\nprint('whole')", timeout=3.5)
    await stage.spoke("slow")
    stage.launch("hog", "await asyncio.sleep(0.1)\ntime.sleep(4.5)\nprint('done')")
    slow, hog = await stage.result("slow"), await stage.result("hog")
    assert [e for e in stage.events if isinstance(e, BlockHeld)] == [BlockHeld("slow", "hog")]
    assert (slow.status, hog.status) == ("ok", "ok")
    assert slow.duration > 4


async def test_a_block_that_holds_the_loop_alone_is_nobody_s_business(stage):
    await stage.run("hog", "await asyncio.sleep(0)\ntime.sleep(3.2)")
    assert [e for e in stage.events if isinstance(e, BlockHeld)] == []


async def test_after_a_stall_deadlines_count_on(stage):
    stage.launch("slow", "print('on', flush=True)\nawait asyncio.sleep(60)", timeout=3)
    await stage.spoke("slow")
    stage.launch("hog", "await asyncio.sleep(0.1)\ntime.sleep(3)")
    await stage.result("hog")
    slow = await stage.result("slow")
    assert slow.status == "timeout"
    assert slow.duration < 20

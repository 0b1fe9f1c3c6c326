"""Blocks whose place a real kernel keeps while somebody decides about them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest

from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.errors import KernelDied, KernelError

pytestmark = pytest.mark.kernel


def job(id, code, reply=1, **attributes):
    return Job(id, CodeBlock(code, **attributes), reply)


@pytest.fixture
def place(bench):
    """Holds, runs and drops jobs of a bench."""

    class Place:
        async def hold(self, *jobs):
            for one in jobs:
                await bench.runner.hold(one)

        async def drop(self, one):
            await bench.runner.drop(one)

        def run(self, one):
            return bench.start(one.block.code, id=one.id, reply=one.reply)

    return Place()


async def ends(task, seconds=20):
    async with asyncio.timeout(seconds):
        return await task


async def test_a_later_block_waits_for_what_a_held_one_will_make(bench, place):
    a = job("a", "x = 1")
    await bench.run("x = 0", id="before", reply=0)
    await place.hold(a)
    watched, b = bench.start("print(x)", id="b", reply=1)
    _, c = bench.start("print('free')", id="c", reply=1)
    assert (await ends(c)).text == "free\n"
    assert not watched.running.is_set()
    await ends(place.run(a)[1])
    assert (await ends(b)).text == "1\n"
    assert "waited" in " ".join(watched.outcome.notes)


async def test_a_refused_block_lets_those_that_need_it_be_skipped_those_that_come_later_too(bench, place):
    a = job("a", "x = 1")
    await bench.run("x = 0", id="before", reply=0)
    await place.hold(a)
    _, b = bench.start("print(x)", id="b", reply=1)
    await place.drop(a)
    skipped = await ends(b)
    assert (skipped.status, skipped.text) == ("skipped", "")
    assert "it needs x, and block a, which makes it, did not" in skipped.error
    late = await bench.run("print(x)", id="c", reply=1)
    assert late.status == "skipped"
    assert "it needs x, and block a, which makes it, did not run" in late.error
    after_skipped = await bench.run("print(x)", id="d", reply=2)
    assert after_skipped.text == "0\n"


async def test_a_block_refused_at_once_leaves_a_mark_too_until_another_makes_the_name(bench, place):
    await place.drop(job("a", "y = 1"))
    assert (await bench.run("print(y)", id="b", reply=1)).status == "skipped"
    assert (await bench.run("y = 2", id="c", reply=1)).status == "ok"
    assert (await bench.run("print(y)", id="d", reply=1)).text == "2\n"
    assert (await bench.run("print('z')", id="e", reply=1)).text == "z\n"


async def test_two_blocks_that_need_each_other_s_names_do_not_wait_for_each_other(bench, place):
    await bench.run("y = 5", id="before", reply=0)
    a = job("a", "x = y + 1")
    await place.hold(a)
    _, b = bench.start("y = x + 1\nprint(x, y)", id="b", reply=1)
    await ends(place.run(a)[1])
    assert (await ends(b)).text == "6 7\n"


async def test_held_blocks_run_in_their_order_however_late_each_is_admitted(bench, place):
    jobs = [job("a", "n = [1]"), job("b", "n = n + [2]"), job("c", "n = n + [3]\nprint(n)")]
    await place.hold(*jobs)
    tasks = [place.run(one)[1] for one in reversed(jobs)]
    async with asyncio.timeout(20):
        await asyncio.gather(*tasks)
    assert tasks[0].result().text == "[1, 2, 3]\n"


async def test_an_edited_block_runs_its_new_code_and_its_new_names_count(bench, place):
    a = job("a", "x = 1")
    await place.hold(a)
    edited = replace(a, block=replace(a.block, code="import asyncio\nawait asyncio.sleep(0.01)\nx = z"))
    _, z = bench.start("import time\ntime.sleep(0.3)\nz = 9", id="z", reply=0)
    await asyncio.sleep(0)
    _, b = bench.start("print(x)", id="b", reply=1)
    watched, run = place.run(edited)
    await ends(run)
    await ends(z)
    assert watched.status in ("ok", "error")
    assert (await ends(b)).text == "9\n" if watched.status == "ok" else True
    assert watched.lane == "async"


async def test_a_decision_that_overtakes_its_block_counts(bench, place):
    a, b = job("a", "print('ran')"), job("b", "print('never')")
    await asyncio.gather(place.hold(a), place.hold(b), place.drop(b))
    assert (await ends(place.run(a)[1])).text == "ran\n"


async def test_a_kernel_that_is_replaced_meanwhile_runs_the_block_all_the_same(bench, place):
    a = job("a", "print('still')")
    await place.hold(a)
    await bench.kernel.kill("was ended")
    watched = await ends(place.run(a)[1])
    assert watched.text == "still\n"
    assert any("fresh kernel" in note for note in watched.outcome.notes)
    b = job("b", "print('never')")
    await place.hold(b)
    await bench.kernel.kill("was ended")
    with contextlib.suppress(KernelError):
        await place.drop(b)


async def test_a_block_that_ends_its_kernel_is_not_run_again_in_a_fresh_one(bench, place, tmp_path):
    """The kernel's word that it was admitted may be lost with the kernel."""
    ran = tmp_path / "ran"
    for number in range(5):
        code = f"open({str(ran)!r}, 'a').write('{number}')\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
        a = job(f"a{number}", code, reply=number)
        await place.hold(a)
        with pytest.raises(KernelDied):
            await ends(place.run(a)[1])
    assert ran.read_text() == "01234"


async def test_a_held_block_does_not_keep_a_kernel_from_being_interrupted_or_ended(bench, place):
    await place.hold(job("a", "x = 1"))
    watched, b = bench.start("import time\nprint('on', flush=True)\ntime.sleep(60)", id="b", reply=1)
    await watched.spoke.wait()  # its code runs: an interrupt before that is for nobody
    await bench.runner.interrupt("b")
    assert (await ends(b)).status in ("error", "cancelled")

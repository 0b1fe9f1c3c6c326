"""Blocks that live at once share one namespace: what the model is told of it, and in which order things are heard."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.kernel


async def test_a_block_reads_one_line_about_names_that_live_blocks_assign_too(bench):
    wait = "import asyncio\nwhile not over: await asyncio.sleep(0.01)"
    await bench.run("over = False")
    first, first_task = bench.start(f"for i in range(3): total = i\n{wait}", id="one", after=())
    await first.running.wait()
    second, second_task = bench.start(f"i = 5\n{wait}", id="two", after=())
    await second.running.wait()
    third = await bench.run("for i in 'ab': total = i", id="three", after=())
    assert [note for note in third.outcome.notes if "namespace" in note] == [
        "block one, block two were running too, where i, total is assigned as well: all share one namespace"
    ]
    await bench.run("over = True", after=())
    assert [note for note in (await second_task).outcome.notes if "namespace" in note] == [
        "block one was running too, where asyncio, i is assigned as well: all share one namespace"
    ]
    assert (await first_task).outcome.notes == ()


async def test_a_call_of_a_tool_is_never_heard_before_the_start_of_its_block(open_bench):
    heard = []

    async def serve(name, args, kwargs, msg_id, note):
        heard.append(watched[bench.runner.block_of(msg_id)].running.is_set())

    tool = {"name": "ping", "signature": "()", "doc": "", "async": False}
    bench = await open_bench(serve=serve, tools=[tool])
    watched = {}
    for number in range(60):
        name = f"b{number}"
        watched[name], task = bench.start("ping()", id=name)
        await task
    assert heard == [True] * 60

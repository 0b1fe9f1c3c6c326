"""Sockets that fail under their readers and writers while the kernel lives."""

from __future__ import annotations

import asyncio

import pytest

from codeact_kernel.errors import KernelError, KernelLost

pytestmark = pytest.mark.kernel

CHANNELS = ["shell", "control", "iopub"]
PRINT = (
    "import time\nfor n in range(300):\n    print('line', n, flush=True)\n    time.sleep(0.005)\n'the end'"
)
WHOLE = "".join(f"line {n}\n" for n in range(300))


def break_socket(bench, name):
    """Close a socket under whoever uses it."""
    bench.kernel.client._channels[name]._socket.close(linger=0)


async def spoken(watched, lines=20):
    async with asyncio.timeout(20):
        while watched.text.count("\n") < lines:
            watched.spoke.clear()
            await watched.spoke.wait()


@pytest.mark.parametrize("name", CHANNELS)
async def test_a_block_is_complete_though_a_socket_fails_while_it_prints(bench, name):
    watched, task = bench.start(PRINT)
    await spoken(watched)
    break_socket(bench, name)
    async with asyncio.timeout(30):
        await task
    assert watched.text == WHOLE
    assert watched.value == "'the end'"
    assert (watched.status, watched.outcome.missing, watched.outcome.notes) == ("ok", 0, ())
    assert (await bench.run("print('next')")).text == "next\n"


@pytest.mark.parametrize("name", CHANNELS)
async def test_the_second_failure_is_told_within_seconds_and_the_next_block_runs_in_a_fresh_kernel(
    bench, name
):
    await bench.run("valuable = 1")
    watched, task = bench.start("import asyncio\nprint('on')\nawait asyncio.sleep(600)")
    await spoken(watched, 1)
    break_socket(bench, "iopub" if name == "shell" else "shell")
    assert (await bench.run("print('beside')")).text == "beside\n"
    break_socket(bench, name)
    async with asyncio.timeout(10):
        with pytest.raises(KernelLost, match=f"the {name} channel to the kernel failed .* had failed before"):
            await task
        with pytest.raises(KernelLost):
            await bench.kernel.client.request("kernel_info_request", {})
    pid = bench.kernel.pid
    block = await bench.run("print('valuable' in globals())")
    assert block.text == "False\n"
    assert bench.kernel.pid != pid
    assert f"the {name} channel to the kernel failed" in block.outcome.notes[0]
    assert "valuable" in block.outcome.notes[0]


@pytest.mark.parametrize("name", ["shell", "control"])
async def test_what_was_asked_on_a_socket_that_failed_is_asked_again(bench, name):
    client = bench.kernel.client
    asked = asyncio.ensure_future(client.request("kernel_info_request", {}, channel=name))
    await asyncio.sleep(0)
    break_socket(bench, name)
    async with asyncio.timeout(20):
        assert (await asked)["content"]["status"] == "ok"


@pytest.mark.parametrize("name", ["shell", "control"])
async def test_a_socket_that_fails_while_something_is_sent_is_made_anew_for_it(bench, name):
    break_socket(bench, name)
    async with asyncio.timeout(20):
        answer = await bench.kernel.client.request("kernel_info_request", {}, channel=name)
    assert answer["content"]["status"] == "ok"
    assert (await bench.run("print('next')")).text == "next\n"


async def test_a_block_that_is_sent_on_a_socket_that_failed_runs_once(bench):
    break_socket(bench, "shell")
    assert (await bench.run("runs = globals().get('runs', 0) + 1\nprint(runs)")).text == "1\n"
    assert (await bench.run("print(runs)")).text == "1\n"


async def test_a_block_that_went_down_with_its_socket_is_told_so_or_runs(bench):
    watched, task = bench.start("print('ran')")
    await asyncio.sleep(0)
    break_socket(bench, "shell")
    async with asyncio.timeout(20):
        (lost,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(lost, KernelLost):
        assert "while the block was on its way" in lost.message
    else:
        assert watched.text == "ran\n"
    assert (await bench.run("print('next')")).text == "next\n"


async def test_tools_and_confirmations_go_on_over_a_new_control_socket(open_bench):
    async def serve(name, args, kwargs, msg_id, note):
        return sum([*args, *kwargs.values()]) + 1

    tools = [{"name": "add", "signature": "(n)", "doc": "Add one.", "async": False}]
    bench = await open_bench(serve, tools)
    watched, task = bench.start(
        "n = 0\nfor _ in range(2000):\n    n = add(n)\n    if n == 20: print('on', flush=True)\nprint(n)"
    )
    await spoken(watched, 1)
    break_socket(bench, "control")
    async with asyncio.timeout(30):
        await task
    assert watched.text == "on\n2000\n"


async def test_no_deadline_stands_still_for_ever_because_its_going_on_was_lost(bench):
    watched, task = bench.start("import asyncio\nprint('on')\nawait asyncio.sleep(2)")
    await spoken(watched, 1)
    heard = []
    bench.kernel.client.on_held = heard.append
    break_socket(bench, "control")
    async with asyncio.timeout(20):
        await task
    assert [(about["by"], len(about["held"])) for about in heard] == [(None, 1)]


async def test_a_kernel_that_dies_is_dead_and_not_lost(bench):
    watched, task = bench.start("import os, time\nprint('on', flush=True)\ntime.sleep(0.5)\nos._exit(3)")
    await spoken(watched, 1)
    with pytest.raises(KernelError, match="exit code 3"):
        await task

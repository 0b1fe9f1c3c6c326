"""Everything that a block puts out arrives, whatever becomes of the messages on their way."""

from __future__ import annotations

import asyncio
import tempfile

import pytest
from faulty_wire import Fault, put_between

from codeact_kernel.blocks import DisplayOutput, ErrorOutput, StreamOutput

pytestmark = pytest.mark.kernel

KINDS = [
    "busy",
    "execute_input",
    "stream",
    "display_data",
    "execute_result",
    "idle",
    "execute_reply",
    "codeact_ack",
]
CODE = "import sys\nfor n in range(4):\n    print(n)\n    display({'text/plain': f'd{n}'}, raw=True)\nprint('end')\n42"
WHOLE = ["0\n", "d0", "1\n", "d1", "2\n", "d2", "3\n", "d3", "end\n", "42"]


def shown(watched):
    """What each output says; a line that a busy machine has sent in two pieces is one."""
    said = []
    for output in watched.outputs:
        if not isinstance(output, StreamOutput):
            said.append(output.data["text/plain"])
        elif said and not said[-1].endswith("\n") and said[-1] not in WHOLE:
            said[-1] += output.text
        else:
            said.append(output.text)
    return said


@pytest.fixture
async def bench(open_bench):
    """A bench whose kernel is reached over a faulty wire: `bench.wire`."""
    made = await open_bench()
    with tempfile.TemporaryDirectory(prefix="ck-") as folder:
        made.wire = await put_between(made.kernel, f"{folder}/s")
        yield made
        await made.kernel.client.aclose()
        await made.wire.aclose()


async def test_a_wire_without_faults_passes_everything_on(bench):
    bench.wire.reset()
    assert shown(await bench.run(CODE)) == WHOLE
    async with asyncio.timeout(5):
        while not bench.wire.seen["idle"]:
            await asyncio.sleep(0.01)
    once = dict.fromkeys(("busy", "execute_input", "execute_result", "idle", "execute_reply"), 1)
    assert {kind: bench.wire.seen[kind] for kind in KINDS[:-1]} == {**once, "stream": 5, "display_data": 4}
    assert not any(kind.endswith("_request") for kind in bench.wire.seen if kind.startswith("codeact_"))


@pytest.mark.parametrize("how", ["drop", "twice", "corrupt", "garble"])
@pytest.mark.parametrize("kind", KINDS)
async def test_any_message_of_a_block_may_be_lost_or_come_twice(bench, kind, how):
    for number in range(5):
        bench.wire.reset(Fault(kind, number if kind in ("stream", "display_data") else 0, how))
        async with asyncio.timeout(10):
            block = await bench.run(CODE)
        assert shown(block) == WHOLE
        assert (block.status, block.outcome.missing, block.lane) == ("ok", 0, "main")
        if kind not in ("stream", "display_data", "codeact_ack"):
            break


@pytest.mark.parametrize("kind", KINDS)
async def test_every_message_of_a_kind_may_be_lost(bench, kind):
    bench.wire.reset(Fault(kind))
    async with asyncio.timeout(20):
        block = await bench.run(CODE)
    assert shown(block) == WHOLE
    assert (block.status, block.outcome.missing) == ("ok", 0)


async def test_all_that_the_kernel_publishes_may_be_lost(bench):
    bench.wire.reset(*map(Fault, [*KINDS[:-2]]))
    assert shown(await bench.run(CODE)) == WHOLE
    bench.wire.reset(*map(Fault, KINDS[:-1]))
    assert shown(await bench.run(CODE)) == WHOLE


async def test_a_lost_start_is_learnt_of_while_the_block_runs(bench):
    bench.wire.reset(Fault("execute_input"))
    watched, task = bench.start("import time\ntime.sleep(3)", lane="worker")
    async with asyncio.timeout(2.5):
        await watched.running.wait()
    assert watched.lane == "worker"
    await task
    assert 2.9 < watched.ended - watched.began < 3.3


async def test_a_lost_line_arrives_while_the_block_runs(bench):
    bench.wire.reset(Fault("stream", 0))
    watched, task = bench.start("import time\nprint('early', flush=True)\ntime.sleep(3)")
    async with asyncio.timeout(2.5):
        await watched.spoke.wait()
    assert watched.text == "early\n"
    await task


async def test_a_question_that_is_lost_is_asked_again(bench):
    bench.wire.reset(Fault("stream", 1), Fault("codeact_resend_request", 0), Fault("codeact_resend_reply", 0))
    assert shown(await bench.run(CODE)) == WHOLE
    assert bench.wire.hit["codeact_resend_reply"] == 1
    bench.wire.reset(Fault("execute_reply"), Fault("codeact_reply_again_request", 0))
    block = await bench.run("1/0")
    assert (block.status, "ZeroDivisionError" in block.error) == ("error", True)


async def test_what_cannot_be_had_again_is_counted_and_shown_where_it_is_missing(bench):
    bench.wire.reset(Fault("stream", 1), Fault("codeact_resend_reply"))
    async with asyncio.timeout(40):
        block = await bench.run(CODE)
    assert block.outcome.missing == 1
    assert shown(block)[:2] == WHOLE[:2]
    assert shown(block)[2] == "\n[1 output of the kernel never came and cannot be had again]\n"
    assert shown(block)[3:] == WHOLE[3:]


async def test_late_output_is_made_whole_too(bench):
    code = (
        "import threading, time\ndef work():\n    for n in range(4):\n        time.sleep(0.2)\n        print(n)\n"
        "threading.Thread(target=work).start()"
    )
    bench.wire.reset(Fault("stream", 1), Fault("stream", 3))
    block = await bench.run(code)
    async with asyncio.timeout(10):
        while block.text != "0\n1\n2\n3\n":
            block.spoke.clear()
            await block.spoke.wait()
    assert bench.wire.hit["stream"] == 2


async def test_a_flood_with_many_losses_is_whole(bench):
    bench.wire.reset(*(Fault("stream", n) for n in range(0, 200, 7)))
    async with asyncio.timeout(50):
        block = await bench.run("for n in range(300_000): print(n, 'x' * 40)")
    assert block.text == "".join(f"{n} {'x' * 40}\n" for n in range(300_000))
    assert bench.wire.hit["stream"] > 3


async def test_a_block_is_held_up_by_acks_that_are_lost_and_goes_on(bench):
    bench.wire.reset(*(Fault("codeact_ack", n) for n in range(0, 40, 2)))
    async with asyncio.timeout(50):
        block = await bench.run("print('x' * 20_000_000)")
    assert len(block.text) == 20_000_001


async def test_a_reader_that_was_away_has_everything_afterwards(bench):
    """Nothing of iopub is read for longer than the kernel waits: it goes on, and the rest is fetched."""
    bench.wire.open.clear()
    watched, task = bench.start("for n in range(400): print(f'{n:06}', 'x' * 99_993)\nprint('done')")
    async with asyncio.timeout(20):
        # The reply comes on another channel: the block has ended.
        while bench.wire.seen["execute_reply"] == 0:
            await asyncio.sleep(0.05)
    bench.wire.open.set()
    async with asyncio.timeout(30):
        await task
    assert watched.text == "".join(f"{n:06} {'x' * 99_993}\n" for n in range(400)) + "done\n"
    assert watched.outcome.missing == 0


async def test_nonsense_in_well_formed_messages_ends_no_reader(bench):
    code = """
kernel = get_ipython().kernel
parent = kernel.get_parent()
for kind, content, meta in [
    ("stream", {"text": 5}, {}), ("stream", {}, {"codeact": {"n": "x"}}), ("display_data", {"data": [1]}, {}),
    ("error", {"traceback": 7}, {}), ("execute_result", {}, {"codeact": 3}), ("status", {}, {}), ("odd", {}, {}),
    ("execute_input", {}, {"codeact": []}), ("update_display_data", {"transient": "x"}, {"codeact": {"n": -1}}),
]:
    kernel.session.send(kernel.iopub_socket, kind, content, parent=parent, metadata=meta)
print("whole")
"""
    block = await bench.run(code)
    assert block.text.endswith("whole\n")
    assert (await bench.run("print('next')")).text == "next\n"


async def test_a_forged_number_costs_a_moment_and_no_output(bench):
    code = """
kernel = get_ipython().kernel
kernel.session.send(kernel.iopub_socket, "stream", {"name": "stdout", "text": "forged"},
                    parent=kernel.get_parent(), metadata={"codeact": {"n": 10**9}})
print("honest")
"""
    async with asyncio.timeout(20):
        block = await bench.run(code)
    assert block.text.startswith("honest\n")
    assert block.status == "ok"


@pytest.mark.parametrize("text", ["'\\ud800'", "'a\\udfffb'", "'\\udc80'", "'nul \\x00 nul'"])
async def test_text_that_no_message_can_hold_arrives_with_a_mark(bench, text):
    block = await bench.run(
        f"t = {text}\nprint(t)\ndisplay({{'text/plain': t}}, raw=True)\nraise ValueError(t)"
    )
    expected = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in eval(text))
    (said, display, error) = block.outputs
    assert said == StreamOutput("stdout", expected + "\n")
    assert display == DisplayOutput({"text/plain": expected})
    assert isinstance(error, ErrorOutput)
    assert error.evalue == expected
    assert f"ValueError: {expected}" in block.error
    assert "UnicodeEncodeError" not in block.error


async def test_code_with_half_a_character_is_sent(bench):
    assert (await bench.run("print('\ud800')")).text == "\ufffd\n"


async def test_a_block_is_forgotten_once_nothing_of_it_is_left_and_not_while_a_thread_of_it_lives(bench):
    bench.wire.reset()
    thread = "import threading\ngo = threading.Event()\ndef say():\n    go.wait()\n    print('late')\n"
    first = await bench.run(thread + "threading.Thread(target=say).start()")
    kept = bench.kernel.client._inlets
    count = 0
    async with asyncio.timeout(30):
        while count < 100 or len(kept) > 30:
            assert (await bench.run(f"print({count})")).text == f"{count}\n"
            count += 1
    await bench.run("go.set()")
    async with asyncio.timeout(10):
        while first.text != "late\n":
            await asyncio.sleep(0.01)

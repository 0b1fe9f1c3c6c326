"""The fake runner: it has to keep the promises of `Runner`, or it proves nothing."""

import asyncio

import pytest

from codeact_kernel.blocks import (
    AgentBlock,
    ClearOutput,
    CodeBlock,
    DisplayOutput,
    ErrorOutput,
    Job,
    ResultOutput,
    StreamOutput,
)
from codeact_kernel.errors import KernelDied
from codeact_kernel.testing import EPOCH, FakeRunner, jumping


class Ear:
    def __init__(self):
        self.start = None
        self.outputs = []

    def started(self, lane, at):
        assert self.start is None
        self.start = (lane, at)

    def output(self, output):
        self.outputs.append(output)


def job(code, name="b1"):
    return Job(name, CodeBlock(code), 1)


@jumping
async def test_lines_are_played_in_order_and_the_outcome_is_ok():
    ear = Ear()
    code = 'print("a", 1)\nprint("b", err=True, end="")\nshow("p", id="x", update=True)\nvalue("42")'
    outcome = await FakeRunner().run(job(code + "\nclear(wait=True)"), ear)
    assert ear.outputs == [
        StreamOutput("stdout", "a 1\n"),
        StreamOutput("stderr", "b"),
        DisplayOutput({"text/plain": "p"}, display_id="x", update=True),
        ResultOutput({"text/plain": "42"}, execution_count=1),
        ClearOutput(True),
    ]
    assert (outcome.status, outcome.lane, outcome.execution_count) == ("ok", "main", 1)


@jumping
async def test_a_queued_block_starts_when_its_lane_is_free():
    ear = Ear()
    await FakeRunner().run(job('queue(7, lane="async")\nprint("x")'), ear)
    assert ear.start == ("async", pytest.approx(EPOCH + 7))


@jumping
async def test_a_failure_is_an_outcome_with_its_error_put_out():
    ear = Ear()
    outcome = await FakeRunner().run(job('fail("ValueError", "no")\nprint("never")'), ear)
    assert (outcome.status, outcome.error) == ("error", "ValueError: no")
    assert ear.outputs == [ErrorOutput("ValueError", "no", ("ValueError: no",))]


@jumping
async def test_an_interrupt_ends_a_sleep_but_not_a_deaf_one():
    runner, ear = FakeRunner(), Ear()
    plain = asyncio.create_task(runner.run(job("sleep(100)", "plain"), ear))
    deaf = asyncio.create_task(runner.run(job("deaf()\nsleep(100)", "deaf"), Ear()))
    await asyncio.sleep(10)
    await runner.interrupt("plain")
    await runner.interrupt("deaf")
    await runner.interrupt("nobody")
    assert (await plain).error == "KeyboardInterrupt"
    assert asyncio.get_running_loop().time() == pytest.approx(10)
    assert (await deaf).status == "ok"
    assert asyncio.get_running_loop().time() == pytest.approx(100)
    assert runner.interrupts == [(name, pytest.approx(10)) for name in ("plain", "deaf", "nobody")]


@jumping
async def test_an_interrupt_ends_a_block_that_still_waits_for_its_lane():
    runner, ear = FakeRunner(), Ear()
    run = asyncio.create_task(runner.run(job("queue(100)"), ear))
    await asyncio.sleep(1)
    await runner.interrupt("b1")
    assert (await run).status == "error"
    assert ear.start is None
    assert ear.outputs == []


@jumping
async def test_a_wait_ends_with_its_signal():
    runner = FakeRunner()
    run = asyncio.create_task(runner.run(job('wait("go")'), Ear()))
    await asyncio.sleep(5)
    assert not run.done()
    runner.signal("go")
    assert (await run).status == "ok"


@jumping
async def test_late_output_comes_after_the_end():
    ear = Ear()
    await FakeRunner().run(job('late(5, "late")'), ear)
    assert ear.outputs == []
    await asyncio.sleep(6)
    assert ear.outputs == [StreamOutput("stdout", "late\n")]


@jumping
async def test_a_kernel_can_die_and_a_runner_can_be_wrong():
    with pytest.raises(KernelDied) as died:
        await FakeRunner().run(job('die("x", "y")'), Ear())
    assert died.value.lost == ("x", "y")
    with pytest.raises(RuntimeError, match="bug"):
        await FakeRunner().run(job('crash("bug")'), Ear())


@jumping
async def test_a_run_that_is_cancelled_is_noted_as_given_up():
    runner = FakeRunner()
    run = asyncio.create_task(runner.run(job("deaf()\nsleep(100)"), Ear()))
    await asyncio.sleep(1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert runner.given_up == ["b1"]
    assert runner.playing == {}


@jumping
async def test_the_task_of_an_agent_is_played_too_and_skips_do_not_start():
    ear = Ear()
    outcome = await FakeRunner().run(Job("a", AgentBlock('skip("because")'), 1), ear)
    assert (outcome.status, outcome.error, ear.start) == ("skipped", "because", None)


@pytest.mark.parametrize("code", ["x = 1", "open('f')", "print(x)", "_play()"])
@jumping
async def test_code_that_is_not_in_the_language_fails_the_test(code):
    with pytest.raises(ValueError):
        await FakeRunner().run(job(code), Ear())

"""Deadlines and cancels."""

import asyncio

import pytest

from codeact_kernel.blocks import AgentBlock, CodeBlock, Job, Outcome, StreamOutput
from codeact_kernel.errors import KernelDied, KernelLost
from codeact_kernel.events import BlockFinished, BlockHeld, BlockOutput, BlockStarted
from codeact_kernel.protocols import LAST
from codeact_kernel.supervisor import Supervisor
from codeact_kernel.supervisor.deadline import RUNGS
from codeact_kernel.testing import EPOCH, FakeRunner, jumping, wall


@jumping
async def test_a_deadline_interrupts_and_keeps_what_was_put_out(stage):
    async with stage.supervisor():
        stage.launch("dl", 'print("one")\nsleep(60)\nprint("two")', timeout=2)
        await asyncio.sleep(3)
    result = stage.result("dl")
    assert result.status == "timeout"
    assert result.outputs[0] == StreamOutput("stdout", "one\n")
    assert result.outcome.error == "stopped at its deadline, 2.0s after it began\nKeyboardInterrupt"
    assert result.duration == pytest.approx(2)
    assert stage.runner.interrupts == [("dl", pytest.approx(2))]


@jumping
async def test_a_deadline_counts_from_the_first_line_of_code(stage):
    async with stage.supervisor():
        stage.launch("first", "sleep(40)")
        stage.launch("lane", "queue(30)\nsleep(100)", timeout=10)
        stage.launch("order", "queue(5)\nsleep(100)", timeout=10, after=("first",))
        await asyncio.sleep(200)
    assert stage.runner.interrupts == [("lane", pytest.approx(40)), ("order", pytest.approx(55))]
    assert [stage.result(name).duration for name in ("lane", "order")] == [pytest.approx(10)] * 2


@jumping
async def test_a_block_that_waits_for_its_lane_has_no_deadline_yet(stage):
    async with stage.supervisor():
        stage.launch("lane", "queue(100000)", timeout=1)
        await asyncio.sleep(99_999)
        assert [block.id for block in stage.it.live] == ["lane"]


@jumping
async def test_a_block_that_ends_before_its_deadline_is_left_alone(stage):
    async with stage.supervisor():
        stage.launch("quick", "sleep(1)", timeout=1.5)
        await asyncio.sleep(10)
    assert stage.result("quick").status == "ok"
    assert stage.runner.interrupts == []


@jumping
async def test_without_a_timeout_the_setting_counts_for_code_and_nothing_for_agents():
    events, code, agents = [], FakeRunner(), FakeRunner()
    async with Supervisor({CodeBlock: code, AgentBlock: agents}, events.append, wall=wall) as supervisor:
        supervisor.launch(Job("code", CodeBlock("sleep(7200)"), 1), 1)
        supervisor.launch(Job("agent", AgentBlock("sleep(7200)"), 1), 1)
        await asyncio.sleep(7201)
    results = {event.result.id: event.result for event in events if isinstance(event, BlockFinished)}
    assert (results["code"].status, results["code"].duration) == ("timeout", pytest.approx(1800))
    assert results["agent"].status == "ok"


@jumping
async def test_a_deaf_block_is_interrupted_at_each_rung_and_then_left_behind(stage):
    async with stage.supervisor(grace=5):
        stage.launch("deaf", 'deaf()\nprint("a")\nsleep(60)\nprint("b")', timeout=10)
        stage.launch("other", "sleep(20)")
        await asyncio.sleep(16)
        result = stage.result("deaf")
        assert stage.at(BlockFinished(result)) == pytest.approx(15)
        assert [at for _, at in stage.runner.interrupts] == [pytest.approx(10 + 5 * rung) for rung in RUNGS]
        assert stage.runner.insistence == [0, 1, 2, 3, 4, LAST]
        assert result.status == "timeout"
        assert "still runs" in result.outcome.notes[0]
        assert (result.outputs, result.outcome.lane) == ((StreamOutput("stdout", "a\n"),), "main")
        assert [block.id for block in stage.it.live] == ["other"]
        assert [block.id for block in stage.it.stuck] == ["deaf"]
        await asyncio.sleep(60)
        assert stage.it.stuck == []
    assert BlockOutput("deaf", StreamOutput("stdout", "b\n"), late=True) in stage.events
    assert stage.result("other").status == "ok"
    assert len(stage.of(BlockFinished)) == 2


@jumping
async def test_a_block_that_swallows_one_interrupt_ends_at_a_later_one(stage):
    class SwallowsTwo(FakeRunner):
        async def interrupt(self, job_id, insistence=0):
            self.interrupts.append((job_id, 0.0))
            if len(self.interrupts) > 2:
                await super().interrupt(job_id, insistence)

    runner = SwallowsTwo()
    async with stage.supervisor(runner):
        stage.launch("a", "sleep(60)", timeout=10)
        await asyncio.sleep(20)
    assert stage.result("a").status == "timeout"
    assert stage.result("a").outcome.notes == ()
    assert stage.result("a").duration == pytest.approx(10 + 5 * RUNGS[2])


@pytest.mark.parametrize("fault", ["hangs", "kernel is gone"])
@jumping
async def test_an_interrupt_that_does_not_come_back_is_bounded_too(stage, fault):
    class Bad(FakeRunner):
        async def interrupt(self, job_id, insistence=0):
            if fault == "hangs":
                await asyncio.Event().wait()
            raise KernelLost("the control channel is gone")

    async with stage.supervisor(Bad(), grace=5):
        stage.launch("a", "sleep(60)", timeout=10)
        await asyncio.sleep(16)
        assert stage.result("a").ended == pytest.approx(EPOCH + 15)
        assert stage.result("a").status == "timeout"


@jumping
async def test_a_kernel_that_dies_of_the_interrupt_is_told_as_dead(stage):
    class Dies(FakeRunner):
        async def run(self, job, watcher):
            if (await super().run(job, watcher)).error == "KeyboardInterrupt":
                raise KernelDied("The kernel ended with exit code 1.", returncode=1, lost=("x",))
            return Outcome()

    async with stage.supervisor(Dies()):
        stage.launch("a", "sleep(60)", timeout=1)
        await asyncio.sleep(2)
    assert stage.result("a").status == "died"
    assert "x" in stage.result("a").outcome.error


@jumping
async def test_cancelling_a_running_block_interrupts_it_at_once(stage):
    async with stage.supervisor():
        stage.launch("dl", 'print("one")\nsleep(60)')
        await asyncio.sleep(5)
        assert stage.it.cancel("dl", "by the user") is True
        await asyncio.sleep(0.1)
        result = stage.result("dl")
        assert result.ended == pytest.approx(EPOCH + 5)
    assert result.status == "cancelled"
    assert result.outcome.error == "cancelled: by the user\nKeyboardInterrupt"
    assert result.outputs[0] == StreamOutput("stdout", "one\n")


@jumping
async def test_cancelling_a_block_that_waits_for_order_never_runs_it(stage):
    async with stage.supervisor():
        stage.launch("first", "sleep(60)")
        stage.launch("second", "sleep(60)", after=("first",))
        await asyncio.sleep(5)
        assert stage.it.cancel("second", "by the model") is True
        await asyncio.sleep(0.1)
        assert stage.result("second").status == "cancelled"
        assert "has not run" in stage.result("second").outcome.error
        assert [block.id for block in stage.it.live] == ["first"]
    assert [job.id for job in stage.runner.jobs] == ["first"]


@jumping
async def test_cancelling_a_block_that_waits_for_its_lane_reaches_the_runner(stage):
    async with stage.supervisor():
        stage.launch("lane", "queue(60)\nprint('never')")
        await asyncio.sleep(5)
        stage.it.cancel("lane", "by the model")
        await asyncio.sleep(0.1)
        assert stage.result("lane").status == "cancelled"
    assert stage.runner.interrupts == [("lane", pytest.approx(5))]
    assert stage.of(BlockStarted) == []


@jumping
async def test_cancelling_right_after_the_launch_works(stage):
    async with stage.supervisor():
        stage.launch("dl", "queue(1)\nsleep(60)")
        assert stage.it.cancel("dl", "by the model") is True
        await asyncio.sleep(1)
    assert stage.result("dl").status == "cancelled"


@jumping
async def test_cancel_says_whether_there_was_something_to_cancel(stage):
    async with stage.supervisor():
        stage.launch("dl", "sleep(1)")
        await asyncio.sleep(2)
        stage.launch("dl#2", "sleep(10)")
        assert stage.it.cancel("nobody", "by the model") is False
        assert stage.it.cancel("dl", "by the model") is True
        assert stage.it.cancel("dl", "by the user") is True
        await asyncio.sleep(1)
        assert stage.it.cancel("dl", "by the model") is False
    assert (stage.result("dl").status, stage.result("dl#2").status) == ("ok", "cancelled")
    assert stage.result("dl#2").outcome.error.startswith("cancelled: by the model")


@jumping
async def test_a_deaf_block_that_is_cancelled_is_left_behind_as_cancelled(stage):
    async with stage.supervisor(grace=2):
        stage.launch("deaf", "deaf()\nsleep(60)")
        await asyncio.sleep(5)
        stage.it.cancel("deaf", "by the user")
        await asyncio.sleep(3)
        assert stage.result("deaf").status == "cancelled"
        assert stage.it.cancel("deaf", "by the user") is False


@jumping
async def test_a_start_that_comes_after_the_block_was_left_behind_is_no_news(stage):
    class Deaf(FakeRunner):
        async def interrupt(self, job_id, insistence=0):
            pass

    async with stage.supervisor(Deaf(), grace=2):
        stage.launch("lane", "queue(30)\nsleep(5)")
        await asyncio.sleep(1)
        stage.it.cancel("lane", "by the user")
        await asyncio.sleep(60)
    assert stage.of(BlockStarted) == []
    assert len(stage.of(BlockFinished)) == 1


@jumping
async def test_cancel_wins_over_a_deadline_that_comes_later_and_the_deadline_over_a_later_cancel(stage):
    async with stage.supervisor(grace=5):
        stage.launch("a", "deaf()\nsleep(60)", timeout=10)
        stage.launch("b", "deaf()\nsleep(60)", timeout=10)
        await asyncio.sleep(9)
        stage.it.cancel("a", "by the user")
        await asyncio.sleep(2)
        stage.it.cancel("b", "by the user")
        await asyncio.sleep(10)
    assert (stage.result("a").status, stage.result("b").status) == ("cancelled", "timeout")


@jumping
async def test_a_deadline_stands_still_while_another_block_keeps_this_one_from_going_on(stage):
    async with stage.supervisor():
        stage.launch("a", "sleep(60)", timeout=10)
        await asyncio.sleep(4)
        watch = stage.it._watches["a"]
        watch.held("hog")
        watch.held("hog")
        assert stage.of(BlockHeld, "a") == [BlockHeld("a", "hog")] * 2
        await asyncio.sleep(20)
        assert stage.it.live[0].deadline == pytest.approx(EPOCH + 30)
        watch.held(None)
        await asyncio.sleep(5)
        assert stage.it.live[0].deadline == pytest.approx(EPOCH + 30)
        await asyncio.sleep(2)
    assert stage.result("a").duration == pytest.approx(30)


@jumping
async def test_a_block_that_is_kept_from_going_on_can_be_cancelled(stage):
    async with stage.supervisor():
        stage.launch("a", "sleep(60)", timeout=10)
        await asyncio.sleep(4)
        stage.it._watches["a"].held("hog")
        await asyncio.sleep(20)
        stage.it.cancel("a", "by the user")
        await asyncio.sleep(1)
    assert (stage.result("a").status, stage.result("a").duration) == ("cancelled", pytest.approx(24))

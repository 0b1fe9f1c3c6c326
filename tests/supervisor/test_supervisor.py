"""Blocks from their launch to their end."""

import asyncio

import pytest

from codeact_kernel.blocks import (
    AgentBlock,
    CodeBlock,
    DisplayOutput,
    ErrorOutput,
    Job,
    ResultOutput,
    StreamOutput,
)
from codeact_kernel.errors import KernelLost, ToolError
from codeact_kernel.events import BlockFinished, BlockOutput, BlockQueued, BlockStarted, Heartbeat
from codeact_kernel.supervisor import Supervisor
from codeact_kernel.testing import EPOCH, FakeRunner, jumping


@jumping
async def test_a_block_is_queued_started_heard_and_finished_in_this_order(stage):
    async with stage.supervisor():
        stage.launch("dl", 'queue(2, lane="async")\nprint("a")\nprint("b")\nsleep(3)\nvalue("42")')
        await asyncio.sleep(60)
    kinds = [type(event) for event in stage.events]
    assert kinds == [BlockQueued, BlockStarted, BlockOutput, BlockOutput, BlockOutput, BlockFinished]
    result = stage.result("dl")
    assert stage.events[-1] == BlockFinished(result)
    assert result.outputs == (
        StreamOutput("stdout", "a\nb\n"),
        ResultOutput({"text/plain": "42"}, execution_count=1),
    )
    assert (result.status, result.outcome.lane) == ("ok", "async")
    assert (result.queued, result.started) == (EPOCH, pytest.approx(EPOCH + 2))
    assert result.duration == pytest.approx(3)
    assert stage.at(stage.events[-1]) == pytest.approx(5)


@jumping
async def test_launch_returns_at_once_and_queues_at_once(stage):
    async with stage.supervisor():
        stage.launch("dl", "sleep(1)")
        assert stage.events == [BlockQueued(1, "dl", CodeBlock("sleep(1)", id="dl"), EPOCH)]


@jumping
async def test_blocks_run_side_by_side(stage):
    async with stage.supervisor():
        for number in range(20):
            stage.launch(f"b{number}", "sleep(1)")
        await asyncio.sleep(1.01)
        assert len(stage.of(BlockFinished)) == 20
        assert stage.it.live == []


@jumping
async def test_a_failing_block_is_a_result_and_disturbs_nobody(stage):
    async with stage.supervisor():
        stage.launch("bad", 'fail("ValueError", "no")')
        stage.launch("good", "sleep(5)")
        await asyncio.sleep(10)
    assert (stage.result("bad").status, stage.result("bad").outcome.error) == ("error", "ValueError: no")
    assert stage.result("bad").outputs == (ErrorOutput("ValueError", "no", ("ValueError: no",)),)
    assert stage.result("good").status == "ok"


@jumping
async def test_late_output_is_told_as_late_and_belongs_to_its_block(stage):
    async with stage.supervisor():
        stage.launch("dl", 'print("early")\nlate(30, "late")')
        await asyncio.sleep(60)
    assert stage.of(BlockOutput) == [
        BlockOutput("dl", StreamOutput("stdout", "early\n")),
        BlockOutput("dl", StreamOutput("stdout", "late\n"), late=True),
    ]
    assert stage.events.index(BlockFinished(stage.result("dl"))) < len(stage.events) - 1
    assert stage.result("dl").outputs == (StreamOutput("stdout", "early\n"),)
    assert stage.it.output("dl") == "early\nlate\n"


@jumping
async def test_a_dead_kernel_is_told_to_the_model_with_the_names_that_are_gone(stage):
    async with stage.supervisor():
        stage.launch("a", 'print("x")\ndie("df", "model")')
        stage.launch("b", f"die({', '.join(repr(f'n{i}') for i in range(100))})")
        await asyncio.sleep(1)
    result = stage.result("a")
    assert result.status == "died"
    assert (
        result.outcome.error
        == "The kernel was killed by signal 9 (SIGKILL). These names are gone: df, model."
    )
    assert result.outputs == (StreamOutput("stdout", "x\n"),)
    assert "n39 and 60 more" in stage.result("b").outcome.error


@jumping
async def test_a_kernel_that_is_lost_is_a_result_too(stage):
    class Lost(FakeRunner):
        async def run(self, job, watcher):
            raise KernelLost("The kernel does not answer.")

    async with stage.supervisor(Lost()):
        stage.launch("a", "sleep(1)")
        await asyncio.sleep(1)
    assert stage.result("a").status == "died"
    assert stage.result("a").outcome.error == "The kernel does not answer."


def test_a_bug_of_a_runner_ends_everything_and_still_closes_every_block(stage):
    @jumping
    async def run():
        async with stage.supervisor():
            stage.launch("bug", 'sleep(5)\ncrash("a bug")')
            stage.launch("other", "sleep(100)")
            stage.launch("waiting", "sleep(100)", after=("other",))
            await asyncio.sleep(1000)

    with pytest.raises(ExceptionGroup) as crashed:
        run()
    assert [str(error) for error in crashed.value.exceptions] == ["a bug"]
    assert {event.result.id for event in stage.of(BlockFinished)} == {"bug", "other", "waiting"}
    assert {event.result.status for event in stage.of(BlockFinished)} == {"cancelled"}


@jumping
async def test_a_block_that_nothing_runs_is_rejected(stage):
    async with stage.supervisor():
        stage.it.launch(Job("scout", AgentBlock("look around"), 1), turn=1)
        await asyncio.sleep(1)
    assert stage.result("scout").status == "rejected"


@jumping
async def test_each_kind_of_block_has_its_own_runner(stage):
    code, agents = FakeRunner(), FakeRunner()
    async with Supervisor({CodeBlock: code, AgentBlock: agents}, stage._emit) as supervisor:
        supervisor.launch(Job("a", CodeBlock("sleep(1)"), 1), 1)
        supervisor.launch(Job("b", AgentBlock("sleep(1)"), 1), 1)
        await asyncio.sleep(2)
    assert [job.id for job in code.jobs] == ["a"]
    assert [job.id for job in agents.jobs] == ["b"]


@jumping
async def test_an_id_is_launched_only_once(stage):
    async with stage.supervisor():
        stage.launch("dl", "sleep(1)")
        with pytest.raises(ValueError, match="launched before"):
            stage.launch("dl", "sleep(1)")


@jumping
async def test_output_of_a_reused_id_is_that_of_the_latest(stage):
    async with stage.supervisor():
        stage.launch("dl", 'print("first")')
        await asyncio.sleep(1)
        stage.launch("dl#2", 'print("second")')
        await asyncio.sleep(1)
        assert stage.it.output("dl") == stage.it.output("dl#2") == "second\n"


@jumping
async def test_output_of_a_running_block_is_what_there_is_so_far(stage):
    async with stage.supervisor():
        stage.launch("dl", 'print("one")\nsleep(10)\nprint("two")')
        await asyncio.sleep(5)
        assert stage.it.output("dl") == "one\n"
        await asyncio.sleep(10)
        assert stage.it.output("dl") == "one\ntwo\n"


@jumping
async def test_output_of_an_unknown_block_names_the_known_ones(stage):
    async with stage.supervisor():
        stage.launch("dl", "sleep(1)")
        with pytest.raises(ToolError, match=r"no block 'd1'; the latest are: dl"):
            stage.it.output("d1")


@jumping
async def test_live_shows_what_waits_and_what_runs(stage):
    async with stage.supervisor(default_timeout=60):
        stage.launch("run", 'print("page 1")\nprint("page 2")\nsleep(10)')
        stage.launch("lane", "queue(8)\nsleep(20)", timeout=5)
        stage.launch("order", "sleep(1)", after=("run",), heartbeat=1)
        await asyncio.sleep(2)
        run, lane, order = stage.it.live
        assert (run.id, run.state, run.lane, run.last_line) == ("run", "running", "main", "page 2")
        assert (run.started, run.deadline) == (EPOCH, EPOCH + 60)
        assert (lane.state, lane.started, lane.deadline, lane.last_line) == ("waiting", None, None, "")
        assert (order.state, order.block.after, order.turn) == ("waiting", ("run",), 1)
        await asyncio.sleep(7)
        assert stage.it.live[1].deadline == pytest.approx(EPOCH + 8 + 5)
    assert stage.it.live == []


@jumping
async def test_displays_count_as_output(stage):
    async with stage.supervisor():
        stage.launch("plot", 'print("x", end="")\nshow("<Figure>")\nprint("y")')
        await asyncio.sleep(1)
    assert stage.result("plot").outputs[1] == DisplayOutput({"text/plain": "<Figure>"})
    assert stage.it.output("plot") == "x\n<Figure>\ny\n"


@jumping
async def test_settled_waits_for_every_block_and_for_those_that_come_meanwhile(stage):
    async with stage.supervisor():
        await stage.it.settled()
        stage.launch("a", "sleep(5)")
        stage.launch("b", "sleep(1)", after=("a",))
        asyncio.get_running_loop().call_later(3, stage.launch, "c", "sleep(60)")
        await stage.it.settled()
        assert asyncio.get_running_loop().time() == pytest.approx(63)
        assert stage.it.live == []


@jumping
async def test_leaving_ends_what_lives_and_what_waits(stage):
    async with stage.supervisor():
        stage.launch("run", 'print("half")\nsleep(100)')
        stage.launch("wait", "sleep(1)", after=("run",))
        stage.launch("lane", "queue(100)")
        await asyncio.sleep(10)
    assert asyncio.get_running_loop().time() == pytest.approx(10)
    assert [stage.result(name).status for name in ("run", "wait", "lane")] == ["cancelled"] * 3
    assert stage.result("run").outputs[0] == StreamOutput("stdout", "half\n")
    assert stage.result("run").outcome.error.startswith("cancelled: the run ended")
    assert stage.runner.given_up == []


@jumping
async def test_leaving_takes_no_longer_than_the_grace_and_gives_up_what_is_deaf(stage):
    async with stage.supervisor(grace=5):
        for number in range(10):
            stage.launch(f"deaf{number}", "deaf()\nsleep(1000)")
        await asyncio.sleep(10)
    assert asyncio.get_running_loop().time() == pytest.approx(15)
    assert sorted(stage.runner.given_up) == [f"deaf{number}" for number in range(10)]
    assert all("still runs" in event.result.outcome.notes[0] for event in stage.of(BlockFinished))


@jumping
async def test_leaving_by_cancellation_still_ends_every_block_properly(stage):
    async def run():
        async with stage.supervisor():
            stage.launch("a", "sleep(1000)")
            await asyncio.sleep(1000)

    task = asyncio.create_task(run())
    await asyncio.sleep(10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stage.result("a").status == "cancelled"
    assert [name for name, _ in stage.runner.interrupts] == ["a"]


@jumping
async def test_cancelling_twice_leaves_at_once_and_still_closes_every_block(stage):
    async def run():
        async with stage.supervisor(grace=50):
            stage.launch("deaf", "deaf()\nsleep(1000)")
            await asyncio.sleep(1000)

    task = asyncio.create_task(run())
    await asyncio.sleep(10)
    task.cancel()
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.get_running_loop().time() == pytest.approx(11)
    assert stage.result("deaf").status == "cancelled"
    assert stage.runner.given_up == ["deaf"]


@jumping
async def test_an_exception_in_the_body_comes_out_as_it_is(stage):
    async def run():
        async with stage.supervisor():
            stage.launch("a", "sleep(1000)")
            raise KeyError("body")

    with pytest.raises(KeyError, match="body"):
        await run()
    assert stage.result("a").status == "cancelled"


@jumping
async def test_a_flood_of_output_is_kept_whole(stage):
    class Flood(FakeRunner):
        async def run(self, job, watcher):
            watcher.started("main", EPOCH)
            for number in range(50_000):
                watcher.output(StreamOutput("stdout", f"{number}\n"))
            return await super().run(job, watcher)

    async with stage.supervisor(Flood()):
        stage.launch("flood", "skip('done')", heartbeat=1)
        await asyncio.sleep(1)
        assert stage.it.live == []
    expected = "".join(f"{number}\n" for number in range(50_000))
    assert stage.result("flood").outputs == (StreamOutput("stdout", expected),)
    assert stage.it.output("flood") == expected
    assert stage.of(Heartbeat) == []

"""Blocks that somebody decides about before they run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from codeact_kernel.blocks import CodeBlock, Job, Outcome
from codeact_kernel.errors import RecordError
from codeact_kernel.events import BlockChanged, BlockFinished, BlockStarted
from codeact_kernel.supervisor import Supervisor
from codeact_kernel.testing import FakeRunner, jumping, wall


class Judge:
    """Decides about blocks as a test says."""

    def __init__(self):
        self.asked = []
        self.verdicts = {}

    def __call__(self, job):
        self.asked.append(job.id)
        verdict = self.verdicts.get(job.id, job)
        return verdict(job) if callable(verdict) else verdict

    def after(self, seconds, verdict=None):
        async def decide(job):
            await asyncio.sleep(seconds)
            return verdict or job

        return decide


class PlaceKeepingRunner(FakeRunner):
    """A runner that keeps places, and notes in which order it was told what."""

    def __init__(self):
        super().__init__()
        self.heard = []

    async def hold(self, job):
        self.heard.append(("hold", job.id))

    async def drop(self, job):
        self.heard.append(("drop", job.id))

    async def run(self, job, watcher):
        self.heard.append(("run", job.id))
        return await super().run(job, watcher)


@pytest.fixture
def judge():
    return Judge()


@pytest.fixture
def judged(stage, judge):
    stage.runner = PlaceKeepingRunner()
    stage.it = Supervisor({CodeBlock: stage.runner}, stage._emit, wall=wall, admit=judge)
    return stage


@jumping
async def test_a_block_that_waits_for_approval_stops_no_other_and_its_time_does_not_run(judged, judge):
    judge.verdicts["a"] = judge.after(1000)
    async with judged.it:
        judged.launch("a", "sleep(3)", timeout=5)
        judged.launch("b", "sleep(1)")
        await asyncio.sleep(500)
        (live,) = judged.it.live
        assert (live.id, live.state, live.started, live.deadline) == ("a", "waiting for approval", None, None)
        await asyncio.sleep(502)
        assert judged.it.live[0].state == "running"
        await asyncio.sleep(2)
    assert judged.at(judged.of(BlockFinished)[0]) == pytest.approx(1)
    assert judged.result("a").status == "ok"
    assert judged.result("a").duration == pytest.approx(3)


@jumping
async def test_its_heartbeats_begin_with_its_code(judged, judge):
    judge.verdicts["a"] = judge.after(100)
    async with judged.it:
        judged.launch("a", 'print("x")\nsleep(12)', heartbeat=10)
        await asyncio.sleep(130)
    assert judged.at(judged.of(BlockStarted, "a")[0]) == pytest.approx(100)
    assert [judged.at(event) for event in judged.events if type(event).__name__ == "Heartbeat"] == [
        pytest.approx(110)
    ]


@jumping
async def test_a_refused_block_is_rejected_with_the_reason_and_never_runs(judged, judge):
    judge.verdicts["a"] = Outcome("rejected", "It did not run: no.")
    judge.verdicts["b"] = judge.after(5, Outcome("rejected", "It did not run: no."))
    async with judged.it:
        judged.launch("a", "sleep(1)")
        judged.launch("b", "sleep(1)")
        await asyncio.sleep(10)
    for name in "ab":
        assert judged.result(name).status == "rejected"
        assert judged.result(name).outcome.error == "It did not run: no."
        assert judged.result(name).started is None
    assert judged.runner.jobs == []
    assert judged.runner.heard == [("drop", "a"), ("hold", "b"), ("drop", "b")] or judged.runner.heard == [
        ("hold", "b"),
        ("drop", "a"),
        ("drop", "b"),
    ]


@jumping
@pytest.mark.parametrize("seconds", [None, 5])
async def test_a_decision_that_cannot_be_noted_is_a_refusal_and_the_place_is_given_up(judged, judge, seconds):
    def fail(job):
        raise RecordError("The audit cannot be written")

    async def fail_later(job):
        await asyncio.sleep(seconds)
        fail(job)

    judge.verdicts["a"] = fail if seconds is None else fail_later
    async with judged.it:
        judged.launch("a", "print(1)")
        judged.launch("b", "print(2)")
        await judged.it.settled()
        await asyncio.sleep(0)
    assert judged.it.results["a"].outcome == Outcome("rejected", "The audit cannot be written")
    assert judged.it.results["b"].status == "ok"
    assert [heard for heard in judged.runner.heard if heard[1] == "a"][-1] == ("drop", "a")


@jumping
async def test_what_waits_for_a_refused_block_is_skipped(judged, judge):
    judge.verdicts["a"] = judge.after(5, Outcome("rejected", "no"))
    async with judged.it:
        judged.launch("a", "sleep(1)")
        judged.launch("b", "sleep(1)", after=("a",))
        await asyncio.sleep(10)
    assert judged.result("b").status == "skipped"
    assert "was rejected" in judged.result("b").outcome.error
    assert judge.asked == ["a"]


@jumping
async def test_a_block_is_asked_about_when_its_turn_has_come(judged, judge):
    async with judged.it:
        judged.launch("a", "sleep(10)")
        judged.launch("b", "sleep(1)", after=("a",))
        await asyncio.sleep(5)
        assert judge.asked == ["a"]
        await asyncio.sleep(20)
    assert judge.asked == ["a", "b"]


@jumping
async def test_a_block_that_waits_for_approval_can_be_cancelled_and_nobody_is_asked_any_more(judged, judge):
    gone = []

    async def ask(job):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            gone.append(job.id)
            raise

    judge.verdicts["a"] = ask
    async with judged.it:
        judged.launch("a", "sleep(1)")
        await asyncio.sleep(5)
        assert judged.it.cancel("a", "by the user")
        await asyncio.sleep(1)
        assert judged.result("a").status == "cancelled"
        assert judged.result("a").outcome.error == (
            "cancelled: by the user\nit still waited for approval and has not run"
        )
    assert gone == ["a"]
    assert judged.runner.jobs == []
    assert judged.runner.heard == [("hold", "a"), ("drop", "a")]


@jumping
async def test_leaving_ends_what_still_waits_for_approval(judged, judge):
    judge.verdicts["a"] = judge.after(1e9)
    async with judged.it:
        judged.launch("a", "sleep(1)")
        await asyncio.sleep(1)
    assert judged.result("a").status == "cancelled"


@jumping
async def test_an_edited_block_runs_with_what_was_edited_and_the_model_is_told(judged, judge):
    def edited(job):
        return replace(job, block=replace(job.block, code='print("edited")'))

    judge.verdicts["a"] = edited
    async with judged.it:
        judged.launch("a", 'print("written")')
        await asyncio.sleep(1)
    assert [job.block.code for job in judged.runner.jobs] == ['print("edited")']
    assert judged.it.output("a") == "edited\n"
    result = judged.result("a")
    assert result.block.code == 'print("edited")'
    assert result.outcome.notes == (
        'it was changed by a person before it ran; this is what ran:\nprint("edited")',
    )
    assert [event.block.code for event in judged.of(BlockChanged, "a")] == ['print("edited")']


@jumping
async def test_places_are_kept_in_the_order_in_which_blocks_were_launched(judged, judge):
    judge.verdicts["b"] = judge.after(5)
    async with judged.it:
        for name in "abc":
            judged.launch(name, "sleep(1)")
        await asyncio.sleep(10)
    assert judged.runner.heard == [("run", "a"), ("hold", "b"), ("run", "c"), ("run", "b")]


@jumping
async def test_a_deadline_stands_still_while_a_call_waits_for_a_person(judged):
    async with judged.it:
        judged.launch("a", "sleep(60)", timeout=5)
        await asyncio.sleep(2)
        with judged.it.standing("a"), judged.it.standing("a"), judged.it.standing("nobody"):
            await asyncio.sleep(30)
            assert judged.it.live[0].state == "running"
        await asyncio.sleep(2)
        assert judged.it.live
        await asyncio.sleep(2)
        assert judged.result("a").status == "timeout"


@jumping
async def test_one_reason_to_stand_still_does_not_end_another(judged):
    async with judged.it:
        judged.launch("a", "sleep(60)", timeout=5)
        await asyncio.sleep(1)
        watch = judged.it._find("a")
        with judged.it.standing("a"):
            watch.held("b")
            watch.held("b")
            watch.held(None)
            await asyncio.sleep(20)
            watch.held(None)
            watch.held("b")
        await asyncio.sleep(20)
        assert judged.it.live
        watch.held(None)
        await asyncio.sleep(5)
    assert judged.result("a").status == "timeout"


@jumping
async def test_nobody_is_asked_any_more_about_a_block_that_cannot_run_because_of_another(judged, judge):
    async def lost():
        await asyncio.sleep(5)
        return Outcome("skipped", "it needs x")

    async def hold(job):
        return lost

    gone = []

    async def ask(job):
        try:
            await asyncio.Event().wait()
        finally:
            gone.append(asyncio.get_running_loop().time())

    judged.runner.hold = hold
    judge.verdicts["a"] = ask
    async with judged.it:
        judged.launch("a", "sleep(1)")
        await asyncio.sleep(10)
    assert gone == [pytest.approx(5)]
    assert judged.result("a").status == "skipped"
    assert judged.result("a").outcome.error == "it needs x"
    assert judged.runner.heard == [("drop", "a")]


def test_a_job_is_no_outcome():
    assert not isinstance(Job("a", CodeBlock("x"), 1), Outcome)

"""The run sleeps at no cost, and wakes when it is time."""

from __future__ import annotations

import asyncio

import pytest
from talk import block

from codeact_kernel import Agent
from codeact_kernel.agent.inbox import Inbox
from codeact_kernel.agent.wakeups import LOOK, WakeUps
from codeact_kernel.decoding import from_json
from codeact_kernel.errors import LimitReached, ToolError
from codeact_kernel.events import TurnStarted, WakeUpEnded, WakeUpSet, to_json
from codeact_kernel.testing import ScriptedModel, jumping, wall
from codeact_kernel.transcript import Transcript


class Setting:
    """Lets each block of an id like "wake 2h" set a wake-up."""

    def __init__(self, play, *, cancel=False):
        self.play, self.cancel = play, cancel

    async def after_block(self, result):
        if result.id.startswith("in-"):
            name = await self.play.wake_ups.wake_in(result.id.removeprefix("in-"), "check the build")
            if self.cancel:
                assert self.play.wake_ups.cancel(name)


def times(play):
    return [event.at - play.events[0].at for event in play.events if isinstance(event, TurnStarted)]


@jumping
async def test_the_run_sleeps_and_wakes_with_a_note(play):
    await play.run(block('print("x")', id="in-2h"), "I wait.", "It is built.", hooks=[Setting(play)])
    assert play.answer == "It is built."
    assert play.model.calls == 3
    assert 7_200 <= times(play)[-1] - times(play)[0] < 7_201
    assert play.last() == '<note from="wake-up">check the build (wake-1, set for 2h)</note>'


@jumping
async def test_what_ends_meanwhile_is_told_at_once(play):
    first = block('print("x")', id="in-2h") + "\n" + block("sleep(600)", id="slow")
    await play.run(first, "I wait.", "I wait on.", "done", hooks=[Setting(play)])
    assert play.answer == "done"
    assert 600 <= times(play)[2] - times(play)[0] < 601


@jumping
async def test_several_come_in_their_order(play):
    first = block('print("x")', id="in-3h") + "\n" + block('print("x")', id="in-1h")
    await play.run(first, "I wait.", "I wait on.", "done", hooks=[Setting(play)])
    assert "wake-2" in play.last(2)
    assert "wake-1" in play.last(3)


@jumping
async def test_one_that_was_taken_back_keeps_nobody_waiting(play):
    await play.run(block('print("x")', id="in-2h"), "done", hooks=[Setting(play, cancel=True)])
    assert play.answer == "done"
    assert [e.came for e in play.events if isinstance(e, WakeUpEnded)] == [False]


@jumping
async def test_a_cancel_in_a_reply_takes_one_back(play):
    await play.run(block('print("x")', id="in-2h"), '<cancel id="wake-1"/>', "done", hooks=[Setting(play)])
    assert play.answer == "done"
    assert "wake-1 is taken back" in play.last()


@jumping
async def test_the_inventory_names_those_to_come(play):
    class Compacting(Setting):
        async def after_block(self, result):
            await super().after_block(result)
            if result.id == "c":
                play.context.compact("I know.")

    reply = block('print("x")', id="in-2h") + "\n" + block("sleep(1)", id="c")
    await play.run(reply, "wait", "wait", "done", hooks=[Compacting(play)])
    assert "Wake-ups to come:\n- wake-1 in 1h59m: check the build" in play.seen(2)


@jumping
async def test_the_time_limit_counts_while_it_sleeps_and_the_wake_up_stays(play):
    with pytest.raises(LimitReached) as reached:
        await play.run(block('print("x")', id="in-2h"), "I wait.", hooks=[Setting(play)], seconds=3600)
    assert reached.value.limit == "seconds"
    assert [wake_up.id for wake_up in play.wake_ups.pending] == ["wake-1"]


@jumping
async def test_one_that_was_due_between_runs_comes_with_the_next(play):
    inbox, transcript = Inbox(), Transcript()
    wake_ups = WakeUps(transcript, inbox, transcript.apply, wall)
    with wake_ups.ticking():
        await wake_ups.wake_in(60, "look")
    await asyncio.sleep(3660)
    assert not inbox
    with wake_ups.ticking():
        assert [note.text for note in inbox.take()] == ["look (wake-1, set for 60s, 1h late)"]
    assert not wake_ups.pending


@jumping
async def test_one_that_another_process_has_set_is_pending(play):
    first = Transcript()
    await WakeUps(first, Inbox(), first.apply, wall).wake_in("1h", "look")
    (event,) = first.wake_ups.values()
    again, inbox = Transcript(), Inbox()
    again.apply(from_json(to_json(event)))
    wake_ups = WakeUps(again, inbox, again.apply, wall)
    with wake_ups.ticking():
        await asyncio.sleep(3601)
        assert inbox
        assert await wake_ups.wake_in("5s") == "wake-1"


@jumping
async def test_a_machine_that_slept_is_noticed_by_its_clock(play):
    """Timers stand still while a machine sleeps; the wall clock does not."""
    ahead = 0.0
    inbox, transcript = Inbox(), Transcript()
    wake_ups = WakeUps(transcript, inbox, transcript.apply, lambda: wall() + ahead)
    with wake_ups.ticking():
        await wake_ups.wake_in("2h")
        await asyncio.sleep(60)
        ahead = 7200.0
        await asyncio.sleep(LOOK + 1)
        assert inbox


@jumping
async def test_a_clock_that_is_set_back_makes_no_wake_up_late(play):
    back = 0.0
    inbox, transcript = Inbox(), Transcript()
    wake_ups = WakeUps(transcript, inbox, transcript.apply, lambda: wall() - back)
    with wake_ups.ticking():
        await wake_ups.wake_in("2h")
        await asyncio.sleep(60)
        back = 86_400.0
        await asyncio.sleep(7_000)
        assert not inbox
        await asyncio.sleep(140 + LOOK + 1)
        assert [note.text for note in inbox.take()] == ["It is time. (wake-1, set for 2h)"]


@jumping
@pytest.mark.parametrize("after", ["soon", "-5s", 0, None, "", float("nan"), float("inf")])
async def test_what_is_no_duration_is_told(play, after):
    transcript = Transcript()
    with pytest.raises(ToolError):
        await WakeUps(transcript, Inbox(), transcript.apply, wall).wake_in(after)
    assert not transcript.wake_ups


@pytest.mark.kernel
async def test_a_block_sets_looks_at_and_takes_back_wake_ups(tmp_path):
    code = (
        "name = self.wake_in('2h', 'check the build')\n"
        "print(name, self.wake_ups[0]['note'], self.cancel(name), self.cancel(name), self.wake_ups)\n"
        "self.wake_in(0.2, 'now')"
    )
    model, events = ScriptedModel([block(code), "I wait.", "done"]), []
    async with Agent(model, workspace=tmp_path, observers=[events.append]) as agent:
        run = await agent.run("Wait.")
    assert run.answer == "done"
    assert "wake-1 check the build True False []" in model.requests[1].messages[-1].content
    assert [type(e) for e in events if isinstance(e, WakeUpSet | WakeUpEnded)] == [
        WakeUpSet,
        WakeUpEnded,
        WakeUpSet,
        WakeUpEnded,
    ]


@pytest.mark.kernel
async def test_a_resumed_run_sleeps_on_and_is_woken(tmp_path):
    folder = tmp_path / "run"
    script = [block("self.wake_in('3s', 'check the build')"), "I wait."]
    async with Agent(ScriptedModel(script), workspace=tmp_path, run_dir=folder) as agent:
        run = await agent.run("Wait.", max_time=2)
        assert (run.stop, [w.id for w in agent.wake_ups]) == ("limit", ["wake-1"])

    def reply(request):
        """It may be time before the kernel has started."""
        is_time = "check the build (wake-1, set for 3.0s" in request.messages[-1].content
        return "It is built." if is_time else "I wait on."

    model = ScriptedModel([reply, reply])
    async with Agent.resume(folder, model=model) as agent:
        run = await agent.go_on(max_time=60)
    assert run.answer == "It is built."

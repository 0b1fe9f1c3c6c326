"""A run that is held while a person thinks, and one that is stopped before it has begun."""

from __future__ import annotations

import asyncio

import pytest

from codeact_kernel import Agent
from codeact_kernel.agent.hooks import HookChain
from codeact_kernel.agent.inbox import Inbox, Note
from codeact_kernel.agent.launcher import Launcher
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.events import RunStarted
from codeact_kernel.supervisor import Supervisor
from codeact_kernel.testing import FakeRunner, ScriptedModel, jumping, wall


@jumping
async def test_what_comes_is_not_read_before_the_release_and_then_all_at_once():
    inbox = Inbox()
    inbox.hold()
    waiting = asyncio.create_task(inbox.wait())
    inbox.put(Note("user", "one"))
    await asyncio.sleep(600)
    inbox.put(Note("user", "two"))
    assert not waiting.done()
    inbox.release()
    await waiting
    assert [item.text for item in inbox.take()] == ["one", "two"]


@jumping
async def test_no_block_starts_before_the_release():
    inbox, runner, events = Inbox(), FakeRunner(), []
    async with Supervisor({CodeBlock: runner}, events.append, wall=wall) as supervisor:
        launcher = Launcher(supervisor, HookChain(), events.append, wall, inbox.free)
        inbox.hold()
        launching = asyncio.create_task(launcher.launch(CodeBlock('print("x")', id="a"), 1))
        await asyncio.sleep(600)
        assert (runner.jobs, events) == ([], [])
        inbox.release()
        assert await launching == "a"
        await supervisor.settled()
    assert [job.id for job in runner.jobs] == ["a"]


@pytest.mark.kernel
async def test_a_run_that_is_stopped_with_its_first_event_asks_no_model(tmp_path):
    model = ScriptedModel(["Yes.", "Yes again."])

    def stop_once(event):
        if isinstance(event, RunStarted) and event.task == "stop":
            agent.stop()

    async with Agent(model, workspace=tmp_path, observers=[stop_once]) as agent:
        assert (await agent.run("stop")).stop == "cancelled"
        assert model.calls == 0
        agent.stop()
        assert (await agent.run("go")).answer == "Yes."

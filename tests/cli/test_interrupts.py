"""Ctrl-C during a run, on a clock that jumps, with an agent and a user that write down what happens."""

from __future__ import annotations

import asyncio

import pytest

from codeact_kernel.cli.interrupts import TWICE, Interrupts
from codeact_kernel.cli.loop import Signals
from codeact_kernel.cli.screens import Screen
from codeact_kernel.testing import jumping


class Agent:
    """Writes down what it is told."""

    def __init__(self, blocks=2):
        self.told = []
        self._blocks = blocks

    def cancel_blocks(self):
        self.told.append("cancel")
        return self._blocks

    def hold(self):
        self.told.append("hold")

    def release(self):
        self.told.append("release")

    async def settled(self):
        self.told.append("settled")

    def stop(self):
        self.told.append("stop")

    def steer(self, text):
        self.told.append(f"note {text}")


class User(Screen):
    """Answers what a test wants, when it wants."""

    can_ask = True

    def __init__(self):
        self.asked = []
        self.answers = asyncio.Queue()

    async def decide(self, question):
        self.asked.append(question)
        return await self.answers.get()


class Scene:
    def __init__(self, screen=None, blocks=2):
        self.agent, self.user = Agent(blocks), screen or User()
        self.signals = Signals(lambda: self.agent.told.append("before"))
        self.interrupts = Interrupts(self.agent, self.signals, self.user)

    async def press(self):
        self.signals.on_interrupt()
        await asyncio.sleep(0)

    async def answer(self, line):
        self.user.answers.put_nowait(line)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("line", "then"),
    [
        ("", ["settled", "release"]),
        ("c", ["settled", "release"]),
        (" Continue ", ["settled", "release"]),
        ("s", ["stop", "release"]),
        ("STOP", ["stop", "release"]),
        (None, ["stop", "release"]),
        (" skip page 7 ", ["note skip page 7", "settled", "release"]),
        ("s is a letter", ["note s is a letter", "settled", "release"]),
    ],
)
@jumping
async def test_once_holds_the_run_cancels_its_blocks_and_asks(line, then):
    scene = Scene()
    async with scene.interrupts:
        await scene.press()
        assert scene.agent.told == ["hold", "cancel"]
        assert scene.user.asked[0].startswith("Cancelled 2 blocks. Enter goes on")
        await scene.answer(line)
    assert scene.agent.told == ["hold", "cancel", *then]


@jumping
async def test_the_question_tells_how_many_blocks_there_were():
    one, none = Scene(blocks=1), Scene(blocks=0)
    for scene in (one, none):
        async with scene.interrupts:
            await scene.press()
    assert one.user.asked[0].startswith("Cancelled 1 block. ")
    assert none.user.asked[0].startswith("No block is running. ")


@jumping
async def test_twice_within_the_question_stops_however_long_it_was_open():
    scene = Scene()
    async with scene.interrupts:
        await scene.press()
        await asyncio.sleep(600)
        await scene.press()
    assert scene.agent.told == ["hold", "cancel", "stop", "release"]


@pytest.mark.parametrize(("wait", "stops"), [(TWICE - 0.1, True), (TWICE + 0.1, False)])
@jumping
async def test_twice_within_two_seconds_stops_though_the_question_was_answered(wait, stops):
    scene = Scene()
    async with scene.interrupts:
        await scene.press()
        await scene.answer("")
        await asyncio.sleep(wait - 0.01)
        await scene.press()
    assert ("stop" in scene.agent.told) is stops
    assert len(scene.user.asked) == (1 if stops else 2)


@jumping
async def test_with_nobody_to_ask_the_first_stops():
    scene = Scene(Screen())
    async with scene.interrupts:
        await scene.press()
    assert scene.agent.told == ["stop"]


@jumping
async def test_whoever_wants_the_process_to_end_is_not_asked_anything():
    scene = Scene()
    async with scene.interrupts:
        scene.signals.on_end()
        scene.signals.on_end()
    assert scene.agent.told == ["stop"]
    assert scene.user.asked == []


@jumping
async def test_a_run_that_ends_takes_the_question_back_and_signals_mean_what_they_meant():
    scene = Scene()
    async with scene.interrupts:
        await scene.press()
    assert scene.agent.told == ["hold", "cancel", "release"]
    scene.signals.on_interrupt()
    scene.signals.on_end()
    assert scene.agent.told[3:] == ["before", "before"]


@jumping
async def test_while_the_question_is_taken_back_a_signal_breaks_nothing_off():
    class Slow(User):
        async def decide(self, question):
            try:
                return await super().decide(question)
            finally:
                await asyncio.sleep(1)

    scene = Scene(Slow())
    async with scene.interrupts:
        await scene.press()
        asyncio.get_running_loop().call_later(0.5, lambda: scene.signals.on_interrupt())
    assert scene.agent.told == ["hold", "cancel", "release"]

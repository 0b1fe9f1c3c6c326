"""Reports of blocks that still run."""

import asyncio

import pytest

from codeact_kernel.events import BlockFinished, BlockOutput, Heartbeat
from codeact_kernel.testing import jumping


@jumping
async def test_a_silent_block_of_ten_minutes_sends_no_heartbeat(stage):
    async with stage.supervisor():
        stage.launch("quiet", "sleep(600)", heartbeat=5)
        await asyncio.sleep(601)
    assert stage.result("quiet").status == "ok"
    assert stage.of(Heartbeat) == []


@jumping
async def test_a_heartbeat_has_only_what_is_new(stage):
    async with stage.supervisor():
        stage.launch(
            "dl",
            'print("1/3")\nsleep(7)\nprint("2/3")\nsleep(2)\nprint("3/3", err=True)\nsleep(20)',
            heartbeat=5,
        )
        await asyncio.sleep(60)
    assert stage.of(Heartbeat) == [
        Heartbeat("dl", "1/3\n", pytest.approx(5)),
        Heartbeat("dl", "2/3\n3/3\n", pytest.approx(10)),
    ]


@jumping
async def test_output_after_silence_is_reported_at_the_next_beat_of_the_same_rhythm(stage):
    async with stage.supervisor():
        stage.launch("dl", 'sleep(62)\nprint("x")\nsleep(60)', heartbeat=5)
        await asyncio.sleep(200)
    assert [beat.current for beat in stage.of(Heartbeat)] == [pytest.approx(65)]


@jumping
async def test_heartbeats_count_from_the_first_line_of_code(stage):
    async with stage.supervisor():
        stage.launch("dl", 'queue(33)\nprint("x")\nsleep(60)', heartbeat=10)
        await asyncio.sleep(100)
    (beat,) = stage.of(Heartbeat)
    assert beat.current == pytest.approx(10)
    assert stage.at(beat) == pytest.approx(43)


@jumping
async def test_white_space_alone_is_nothing_new_to_say(stage):
    async with stage.supervisor():
        stage.launch("dl", 'print("")\nsleep(7)\nprint("x")\nsleep(60)', heartbeat=5)
        await asyncio.sleep(100)
    assert [beat.text for beat in stage.of(Heartbeat)] == ["x\n"]


@jumping
async def test_without_the_attribute_there_are_no_heartbeats(stage):
    async with stage.supervisor():
        stage.launch("dl", 'print("x")\nsleep(600)')
        await asyncio.sleep(700)
    assert stage.of(Heartbeat) == []


@jumping
async def test_a_block_that_ends_while_a_heartbeat_is_due_ends_with_its_result_alone(stage):
    async with stage.supervisor():
        stage.launch("dl", 'sleep(9.9999)\nprint("x")\nsleep(0.0001)', heartbeat=10)
        await asyncio.sleep(100)
    finished = stage.events.index(BlockFinished(stage.result("dl")))
    assert not any(isinstance(event, Heartbeat) for event in stage.events[finished:])
    assert len(stage.of(BlockOutput)) == 1


@jumping
async def test_no_heartbeat_after_the_end_of_a_block_that_was_left_behind(stage):
    async with stage.supervisor(grace=3):
        stage.launch("deaf", 'deaf()\nprint("a")\nsleep(20)\nprint("b")\nsleep(20)', heartbeat=1, timeout=10)
        await asyncio.sleep(60)
    assert [beat.text for beat in stage.of(Heartbeat)] == ["a\n"]


@jumping
async def test_beats_that_a_busy_loop_missed_are_not_made_up_for(stage):
    async with stage.supervisor():
        stage.launch("dl", 'print("x")\nsleep(32.5)\nprint("y")\nsleep(60)', heartbeat=1)
        await asyncio.sleep(0.5)
        asyncio.get_running_loop().stall(30)
        await asyncio.sleep(10)
    first, second = stage.of(Heartbeat)
    assert (first.current, second.current) == (pytest.approx(30.5), pytest.approx(33))


@jumping
async def test_each_block_has_a_rhythm_of_its_own(stage):
    async with stage.supervisor():
        for name, beat in (("a", 2), ("b", 3)):
            stage.launch(name, f"{chr(10).join(['print(1)', 'sleep(1)'] * 6)}\nsleep(0.5)", heartbeat=beat)
        await asyncio.sleep(60)
    assert [round(stage.at(beat)) for beat in stage.of(Heartbeat, "a")] == [2, 4, 6]
    assert [round(stage.at(beat)) for beat in stage.of(Heartbeat, "b")] == [3, 6]
    assert "".join(beat.text for beat in stage.of(Heartbeat, "a")) == "1\n" * 6
    assert "".join(beat.text for beat in stage.of(Heartbeat, "b")) == "1\n" * 6


TALK = "\n".join(['print("x")', "sleep(1)"] * 4000)


@jumping
async def test_reports_that_are_answered_by_waiting_come_less_and_less_often(stage):
    async with stage.supervisor():
        stage.launch("dl", TALK, heartbeat=100, timeout=5000)
        for _ in range(4000):
            await asyncio.sleep(1)
            if len(stage.of(Heartbeat)) > stage.told:
                stage.told += 1
                stage.it.slow_down(["dl"])
    assert [round(beat.current) for beat in stage.of(Heartbeat)] == [
        100,
        300,
        700,
        1300,
        1900,
        2500,
        3100,
        3700,
    ]


@jumping
async def test_an_interval_that_was_asked_to_be_long_stays_as_it_is(stage):
    async with stage.supervisor():
        stage.launch("dl", "sleep(1)", heartbeat=3600)
        stage.it.slow_down(["dl"])
        assert stage.it.live[0].heartbeat == 3600


@jumping
async def test_a_restored_interval_goes_on_in_the_old_rhythm_and_reports_nothing_at_once(stage):
    async with stage.supervisor():
        stage.launch("dl", TALK, heartbeat=5, timeout=5000)
        for _ in range(6):
            stage.it.slow_down(["dl"])
        await asyncio.sleep(62.5)
        assert stage.of(Heartbeat) == []
        stage.it.restore_heartbeats()
        await asyncio.sleep(10)
    assert [round(beat.current, 1) for beat in stage.of(Heartbeat)] == [65, 70]


@jumping
async def test_a_slowed_block_that_ends_is_told_at_once(stage):
    async with stage.supervisor():
        stage.launch("dl", 'print("x")\nsleep(62)', heartbeat=5)
        for _ in range(6):
            stage.it.slow_down(["dl"])
        await asyncio.sleep(100)
    assert stage.at(stage.of(BlockFinished)[0]) == pytest.approx(62)
    assert stage.of(Heartbeat) == []

"""The notebook on disk while a run goes on."""

import asyncio
import errno
import json
import os
import threading
from itertools import pairwise

import nbformat
import pytest

from codeact_kernel.blocks import BlockResult, CodeBlock, Outcome, StreamOutput
from codeact_kernel.errors import RecordError
from codeact_kernel.events import (
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Heartbeat,
    ReplyDelta,
    RunEnded,
    RunStarted,
    TurnStarted,
)
from codeact_kernel.messages import Usage
from codeact_kernel.record import NotebookFile, Recorder, snapshot
from codeact_kernel.testing import jumping
from codeact_kernel.transcript import Transcript

BLOCK = CodeBlock("print(1)", id="dl")


class Desk:
    """A transcript with its recorder, fed as a loop feeds them."""

    def __init__(self, path, file=None, **settings):
        self.path = path
        self.transcript = Transcript()
        self.errors = []
        file = file or NotebookFile(path)
        self.recorder = Recorder(file, self.transcript, report=self.errors.append, **settings)

    def tell(self, *events):
        for event in events:
            self.transcript.apply(event)
            self.recorder(event)

    def begin(self):
        self.tell(
            RunStarted("r", "Do it", "m", "s", 0.0),
            TurnStarted(1, 0.0),
            BlockQueued(1, "dl", BLOCK, 0.0),
            BlockStarted("dl", "main", 0.0),
        )

    def say(self, text):
        self.tell(BlockOutput("dl", StreamOutput("stdout", text)))

    def read(self):
        notebook = nbformat.read(self.path, as_version=4)
        nbformat.validate(notebook)
        return notebook

    def said(self):
        """What the notebook on disk has of the block's output."""
        return "".join(output.text for output in self.read().cells[1].outputs)


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path / "runs" / "one" / "run.ipynb")


@jumping
async def test_the_file_is_there_as_soon_as_the_run_has_begun(desk):
    async with desk.recorder:
        desk.begin()
        await asyncio.sleep(0.01)
        assert [cell.metadata.codeact.kind for cell in desk.read().cells] == ["task", "run_code"]


@jumping
async def test_output_is_on_disk_after_a_few_seconds_and_not_once_a_line(desk):
    async with desk.recorder:
        desk.begin()
        await asyncio.sleep(0.01)
        assert desk.recorder.writes == 1
        for number in range(100):
            desk.say(f"{number}\n")
            await asyncio.sleep(0.1)
        assert desk.said().startswith("0\n1\n2\n")
        assert 3 <= desk.recorder.writes <= 5


@jumping
async def test_nothing_new_is_not_written_again(desk):
    async with desk.recorder:
        desk.begin()
        await asyncio.sleep(10)
        desk.tell(ReplyDelta(1, "x"), Heartbeat("dl", "x", 1.0))
        await asyncio.sleep(1000)
        assert desk.recorder.writes == 1
    assert desk.recorder.writes == 1


@jumping
async def test_the_end_of_a_block_is_on_disk_at_once_when_the_last_write_is_old(desk):
    async with desk.recorder:
        desk.begin()
        await asyncio.sleep(10)
        desk.tell(BlockFinished(BlockResult("dl", BLOCK, Outcome())))
        await asyncio.sleep(0.01)
        assert desk.read().cells[1].metadata.codeact.status == "ok"


@jumping
async def test_ends_that_follow_each_other_quickly_are_written_once_a_second(desk):
    async with desk.recorder:
        desk.begin()
        await asyncio.sleep(0.001)
        for _ in range(100):
            desk.tell(TurnStarted(2, 0.0))
            await asyncio.sleep(0.05)
        assert 5 <= desk.recorder.writes <= 7


@jumping
async def test_an_end_hastens_a_write_that_was_due_later(desk):
    async with desk.recorder:
        desk.begin()
        await asyncio.sleep(0.01)
        desk.say("a")
        await asyncio.sleep(1.5)
        assert desk.recorder.writes == 1
        desk.tell(BlockFinished(BlockResult("dl", BLOCK, Outcome())))
        await asyncio.sleep(0.01)
        assert desk.recorder.writes == 2


@jumping
async def test_output_after_an_end_does_not_put_its_write_off(desk):
    async with desk.recorder:
        desk.begin()
        await asyncio.sleep(0.01)
        desk.tell(TurnStarted(2, 0.0))
        desk.say("a")
        await asyncio.sleep(1.1)
        assert desk.recorder.writes == 2


@jumping
async def test_leaving_writes_what_is_new(desk):
    async with desk.recorder:
        desk.begin()
        await asyncio.sleep(0.01)
        desk.say("the last words")
    assert desk.said() == "the last words"


@jumping
async def test_leaving_at_once_writes_everything(desk):
    async with desk.recorder:
        desk.begin()
        desk.tell(RunEnded("cancelled", None, Usage(), 1, 5.0))
    assert desk.read().metadata.codeact.stop_reason == "cancelled"


@jumping
async def test_a_recorder_that_heard_nothing_writes_nothing(desk):
    async with desk.recorder:
        await asyncio.sleep(10)
    assert not desk.path.exists()


@jumping
async def test_leaving_by_cancellation_writes_what_is_new(desk):
    async def run():
        async with desk.recorder:
            desk.begin()
            await asyncio.sleep(1)
            desk.say("x")
            await asyncio.sleep(1000)

    task = asyncio.create_task(run())
    await asyncio.sleep(2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.said() == "x"


class Gate:
    """Holds the writing thread in the middle of a write."""

    def __init__(self, monkeypatch):
        self.reached = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.open = threading.Event()
        self.held = 0
        fsync = os.fsync

        def hold(fd):
            loop.call_soon_threadsafe(self.reached.set)
            self.held += 1
            assert self.open.wait(10)
            fsync(fd)

        monkeypatch.setattr(os, "fsync", hold)


@jumping
async def test_being_cancelled_twice_in_the_middle_of_a_write_loses_nothing(desk, monkeypatch):
    gate = Gate(monkeypatch)

    async def run():
        async with desk.recorder:
            desk.begin()
            await gate.reached.wait()
            desk.say("said while the first write was going on")
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await gate.reached.wait()
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    threading.Timer(0.05, gate.open.set).start()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.said() == "said while the first write was going on"
    assert gate.held == 2


@jumping
async def test_a_write_that_fails_while_the_recorder_is_left_is_made_up_for(desk, monkeypatch):
    gate = Gate(monkeypatch)
    hold = os.fsync

    def fail_once(fd):
        hold(fd)
        if gate.held == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail_once)
    async with desk.recorder:
        desk.begin()
        await gate.reached.wait()
        threading.Timer(0.05, gate.open.set).start()
    assert len(desk.errors) == 1
    assert desk.recorder.error is None
    assert len(desk.read().cells) == 2


class OwnFile(NotebookFile):
    """Does something of a test's own before each write."""

    def __init__(self, path, before):
        super().__init__(path)
        self.before = before

    def write(self, transcript, settled=None):
        self.before()
        return super().write(transcript, settled)


@jumping
async def test_a_write_holds_what_was_so_when_it_began(tmp_path):
    reached, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hold():
        loop.call_soon_threadsafe(reached.set)
        assert go_on.wait(10)

    path = tmp_path / "run.ipynb"
    desk = Desk(path, OwnFile(path, hold))
    async with desk.recorder:
        desk.begin()
        await reached.wait()
        desk.say("said meanwhile")
        go_on.set()
        await asyncio.sleep(0.1)
        assert desk.recorder.writes == 1
        assert desk.said() == ""
    assert desk.said() == "said meanwhile"


@jumping
async def test_the_loop_goes_on_and_the_old_file_stays_whole_while_a_new_one_is_written(desk, monkeypatch):
    async with desk.recorder:
        desk.begin()
        await asyncio.sleep(0.01)
        gate = Gate(monkeypatch)
        desk.tell(BlockFinished(BlockResult("dl", BLOCK, Outcome())))
        await gate.reached.wait()
        ticks = 0
        for _ in range(100):
            await asyncio.sleep(0)
            ticks += 1
        assert ticks == 100
        assert desk.read().cells[1].metadata.codeact.status == "running"
        gate.open.set()
    assert desk.read().cells[1].metadata.codeact.status == "ok"
    assert sorted(path.name for path in desk.path.parent.iterdir()) == ["run.ipynb"]


@jumping
async def test_a_slow_disk_is_left_forty_nine_times_as_long_in_peace(tmp_path):
    writes = []
    loop = asyncio.get_running_loop()

    def slow():
        writes.append(loop.time())
        loop.stall(2.0)

    path = tmp_path / "run.ipynb"
    desk = Desk(path, OwnFile(path, slow))
    async with desk.recorder:
        desk.begin()
        for _ in range(4000):
            desk.tell(TurnStarted(2, 0.0))
            await asyncio.sleep(0.1)
    steps = [later - sooner for sooner, later in pairwise(writes[:-1])]
    assert len(steps) >= 2
    assert all(step == pytest.approx(100, abs=0.2) for step in steps)


@jumping
async def test_a_full_disk_is_reported_once_and_the_run_goes_on(desk, monkeypatch):
    def full(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with desk.recorder:
        desk.begin()
        await asyncio.sleep(1)
        good = desk.path.read_text()
        monkeypatch.setattr(os, "fsync", full)
        for number in range(10):
            desk.say(str(number))
            await asyncio.sleep(10)
        assert desk.path.read_text() == good
        assert len(desk.errors) == 1
        assert isinstance(desk.recorder.error, RecordError)
        assert "No space left on device" in desk.errors[0].message
        assert str(desk.path) in desk.errors[0].message
        assert sorted(path.name for path in desk.path.parent.iterdir()) == ["run.ipynb"]
        monkeypatch.undo()
    assert desk.recorder.error is None
    assert desk.said() == "0123456789"


@jumping
async def test_a_folder_that_cannot_be_made_is_reported_and_still_an_error_at_the_end(tmp_path):
    (tmp_path / "file").write_text("in the way")
    desk = Desk(tmp_path / "file" / "run.ipynb")
    async with desk.recorder:
        desk.begin()
        await asyncio.sleep(100)
        assert len(desk.errors) == 1
    assert len(desk.errors) == 1
    assert isinstance(desk.recorder.error, RecordError)


@jumping
async def test_a_bug_in_the_writer_is_no_disk_error_and_crashes(tmp_path):
    def wrong():
        raise ZeroDivisionError("bug")

    path = tmp_path / "run.ipynb"
    desk = Desk(path, OwnFile(path, wrong))

    async def run():
        async with desk.recorder:
            desk.begin()
            await asyncio.sleep(100)

    with pytest.raises(ExceptionGroup) as crashed:
        await run()
    assert crashed.group_contains(ZeroDivisionError)


@jumping
async def test_an_exception_of_the_body_comes_out_as_it_is_with_everything_written(desk):
    async def run():
        async with desk.recorder:
            desk.begin()
            desk.say("x")
            raise KeyError("body")

    with pytest.raises(KeyError, match="body"):
        await run()
    assert desk.said() == "x"


@jumping
async def test_a_snapshot_does_not_change_when_the_transcript_does(desk):
    desk.begin()
    desk.say("before")
    copy = snapshot(desk.transcript)
    desk.say(" after")
    desk.tell(TurnStarted(2, 0.0), RunEnded("failed", None, Usage(), 1, 0.0))
    assert [output.text for output in copy.runs[0].turns[0].blocks[0].outputs] == ["before"]
    assert (len(copy.runs[0].turns), copy.runs[0].end) == (1, None)


@jumping
async def test_the_file_is_utf8_with_unix_line_ends_and_jupyters_own_layout(desk):
    async with desk.recorder:
        desk.begin()
        desk.say("größer\r\n")
    raw = desk.path.read_bytes()
    assert b"gr\xc3\xb6\xc3\x9fer" in raw
    assert b"\r" not in raw
    assert raw.startswith(b'{\n "cells": [')
    assert raw.endswith(b"}\n")
    assert json.loads(raw)["nbformat"] == 4

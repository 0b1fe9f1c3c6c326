"""Lines from pipes, files and terminals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty

import pytest

from codeact_kernel.cli.stdin import StdinLines


@pytest.fixture
def pipe():
    read, write = os.pipe()
    yield read, write
    for fd in (read, write):
        with contextlib.suppress(OSError):  # the test may have closed it
            os.close(fd)


async def test_lines_come_as_they_are_written_and_the_last_needs_no_end(pipe):
    read, write = pipe
    lines = StdinLines(read)
    os.write(write, b"one\ntw")
    assert await lines.read() == "one"
    waiting = asyncio.create_task(lines.read())
    await asyncio.sleep(0)
    assert not waiting.done()
    os.write(write, "o é\r\n\nlast".encode())
    assert await waiting == "two é"
    assert await lines.read() == ""
    os.close(write)
    assert await lines.read() == "last"
    assert await lines.read() is None
    assert await lines.read() is None


async def test_a_plain_file_is_read_to_its_end(tmp_path):
    (tmp_path / "f").write_bytes(b"a\nb\xff\n")
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    lines = StdinLines(fd)
    assert [await lines.read() for _ in range(3)] == ["a", "b\ufffd", None]
    os.close(fd)


async def test_waiting_can_be_given_up_and_nothing_is_lost(pipe):
    read, write = pipe
    lines = StdinLines(read)
    waiting = asyncio.create_task(lines.read())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not asyncio.get_running_loop().remove_reader(read)
    os.write(write, b"later\n")
    assert await lines.read() == "later"


async def test_a_closed_stdin_has_no_lines(pipe):
    read, _ = pipe
    os.close(read)
    assert await StdinLines(read).read() is None


async def test_what_was_typed_before_the_question_is_no_answer_and_ctrl_d_ends_one_answer_only():
    ours, theirs = pty.openpty()
    lines = StdinLines(theirs)
    os.write(ours, b"too early\n")
    lines.drop()
    os.write(ours, b"\x04")
    assert await lines.read() is None
    lines.drop()
    os.write(ours, b"now\n")
    assert await lines.read() == "now"
    os.close(ours)
    lines.drop()
    assert await lines.read() is None
    os.close(theirs)


async def test_a_pipe_loses_nothing_when_a_question_is_asked(pipe):
    read, write = pipe
    lines = StdinLines(read)
    os.write(write, b"one\ntwo\n")
    assert await lines.read() == "one"
    lines.drop()
    assert await lines.read() == "two"

"""The thread that reads pipes."""

from __future__ import annotations

import os
import threading

import pytest

from codeact_kernel.inkernel.forked import LineWriter
from codeact_kernel.inkernel.pipes import CHUNK, Pipe, Reader
from codeact_kernel.inkernel.processes import family, look

READER = Reader()


@pytest.fixture
def opened():
    """Opens a pipe that is read; gives what came, the pipe and its writing end."""
    READER.start()
    ends = []

    def open_pipe(take=None, has_room=lambda since: True):
        texts: list[str] = []
        read, write = os.pipe()
        pipe = Pipe(read, take or texts.append, has_room)
        READER.call(lambda: READER.add(pipe))
        ends.append(write)
        return texts, pipe, write

    yield open_pipe
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def test_what_was_written_before_a_drain_is_taken_when_it_returns(opened):
    texts, pipe, write = opened()
    for n in range(500):
        os.write(write, f"{n}\n".encode())
        READER.drain(pipe)
        assert "".join(texts).endswith(f"{n}\n")
    assert "".join(texts) == "".join(f"{n}\n" for n in range(500))


def test_a_character_in_two_parts_is_whole_and_one_that_stays_in_parts_is_marked(opened):
    texts, pipe, write = opened()
    for byte in "€😀".encode():
        os.write(write, bytes([byte]))
        READER.drain(pipe)
    assert "".join(texts) == "€😀"
    os.write(write, b"\xff\xe2")
    os.close(write)
    READER.call(lambda: READER.settle(pipe))
    assert "".join(texts) == "€😀\ufffd\ufffd"
    assert pipe.ended


def test_a_pipe_that_nobody_holds_is_closed_once(opened):
    _, pipe, write = opened()
    os.close(write)
    READER.call(lambda: READER.settle(pipe))
    assert pipe.ended
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pipe.fd)
    READER.drain(pipe)
    assert not pipe.has_more()


def test_a_drain_ends_though_a_writer_does_not(opened):
    taken = 0

    def take(text):
        nonlocal taken
        taken += len(text)

    _, pipe, write = opened(take)
    go_on = True

    def flood():
        while go_on:
            os.write(write, b"x" * 4096)

    thread = threading.Thread(target=flood)
    thread.start()
    while taken < 20 * CHUNK:
        READER.drain(pipe)
    go_on = False
    thread.join(10)
    assert not thread.is_alive()


def test_a_pipe_is_left_alone_while_there_is_no_room_for_its_text_and_read_on_later(opened):
    room = threading.Event()
    asked: list[float] = []

    def has_room(since):
        asked.append(since)
        return room.is_set()

    texts, _, write = opened(has_room=has_room)
    os.write(write, b"held back")
    other_texts, other, other_write = opened()
    while len(asked) < 4:
        os.write(other_write, b"x")
        READER.drain(other)
    assert texts == []
    assert asked[1] == asked[2] == asked[3]
    assert set("".join(other_texts)) == {"x"}
    room.set()
    while not texts:
        os.write(other_write, b"x")
        READER.drain(other)
    assert texts == ["held back"]


def test_a_pipe_that_ends_while_it_is_left_alone_is_drained_and_closed(opened):
    texts, pipe, write = opened(has_room=lambda since: False)
    os.write(write, b"last")
    while pipe not in READER._full:
        READER.call(lambda: None)
    os.close(write)
    READER.call(lambda: READER.settle(pipe))
    assert texts == ["last"]
    assert pipe.ended
    assert pipe not in READER._full


def test_what_a_taker_raises_ends_neither_the_pipe_nor_the_thread(opened, caplog):
    def take(text):
        raise ValueError(text)

    _, pipe, write = opened(take)
    os.write(write, b"bad")
    READER.drain(pipe)
    texts, other, other_write = opened()
    os.write(other_write, b"good")
    READER.drain(other)
    assert texts == ["good"]
    assert "cannot be taken" in caplog.text


def test_what_is_called_in_the_thread_gives_its_value_or_its_error(opened):
    READER.start()
    assert READER.call(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        READER.call(lambda: 1 // 0)
    assert READER.call(lambda: READER.call(lambda: 8)) == 8


def test_only_whole_lines_are_written_until_a_flush():
    read, write = os.pipe()
    writer = LineWriter(write)
    writer.write("one\ntw")
    assert os.read(read, 100) == b"one\n"
    writer.write("o\nthree")
    assert os.read(read, 100) == b"two\n"
    writer.flush()
    assert os.read(read, 100) == b"three"
    writer.write("x" * 5000 + "\ny\n")
    assert os.read(read, 10000) == b"x" * 5000 + b"\ny\n"
    writer.write("half a pair: \udc80\n")
    assert os.read(read, 100) == b"half a pair: \\udc80\n"
    os.close(read)
    os.close(write)


def test_a_family_is_seen_with_parents_before_their_children():
    me = look(os.getpid())
    assert me is not None
    assert me.alive
    members = [process.pid for process in family(me.parent)]
    assert members.count(me.pid) == 1
    assert look(2**22 + 1) is None

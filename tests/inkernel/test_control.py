"""The control channel in the kernel: all messages are taken and all are sent, from any thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import select
import threading

import pytest
import zmq
from ipykernel.control import ControlThread
from zmq.eventloop.zmqstream import ZMQStream

from codeact_kernel.inkernel.control import ControlStream

PATIENCE = 10.0


class Ends:
    """A control thread with the stream under test, and a client's socket."""

    def __init__(self, folder):
        self._context = zmq.Context()
        self.router = self._socket(zmq.ROUTER)
        self.router.bind(f"ipc://{folder}/s")
        self.client = self._socket(zmq.DEALER)
        self.client.identity = b"them"
        self.client.connect(f"ipc://{folder}/s")
        self.thread = ControlThread(daemon=True)
        self.stock = ZMQStream(self.router, self.thread.io_loop)
        self.stream = ControlStream(self.stock, self._ahead)
        self.thread.start()
        self.ahead, self.left = [], []
        self.news = threading.Condition()
        self.on_ahead = lambda frames: None
        self.stream.on_recv(self._dispatch, copy=False)

    def _socket(self, kind):
        socket = self._context.socket(kind)
        socket.linger = socket.sndhwm = socket.rcvhwm = 0
        return socket

    def _ahead(self, frames):
        if frames[1].startswith(b"ordinary"):
            return False
        self.on_ahead(frames)
        self._note(self.ahead, frames[1])
        return True

    async def _dispatch(self, frames):
        await asyncio.sleep(0)
        self._note(self.left, frames[1].bytes)
        if frames[1].bytes == b"ordinary bad":
            raise ValueError("not this one")

    def _note(self, where, what):
        with self.news:
            where.append(what)
            self.news.notify_all()

    def until(self, where, count):
        with self.news:
            assert self.news.wait_for(lambda: len(where) >= count, PATIENCE), (len(where), count)

    def within(self, function):
        """What a function gives in the control thread."""
        done = concurrent.futures.Future()
        self.thread.io_loop.asyncio_loop.call_soon_threadsafe(lambda: done.set_result(function()))
        return done.result(PATIENCE)

    def heard(self, count):
        messages = []
        while len(messages) < count:
            assert self.client.poll(PATIENCE * 1000)
            messages.append(self.client.recv_multipart()[0])
        return messages

    def close(self):
        self.thread.stop()
        self.thread.join(PATIENCE)
        self._context.destroy(linger=0)


@pytest.fixture
def ends(tmp_path_factory):
    ends = Ends(tmp_path_factory.mktemp("c"))
    ends.client.send(b"hello")
    ends.until(ends.ahead, 1)
    ends.ahead.clear()
    yield ends
    ends.close()


def test_what_is_not_taken_ahead_is_ipykernels_as_frames(ends):
    ends.client.send(b"ordinary 1")
    ends.client.send(b"ours")
    ends.until(ends.left, 1)
    ends.until(ends.ahead, 1)
    assert (ends.left, ends.ahead) == ([b"ordinary 1"], [b"ours"])


def test_a_message_whose_sign_a_send_has_taken_in_is_taken(ends):
    def send_over_a_sign():
        ends.client.send(b"news")
        descriptor = ends.router.fileno()
        assert select.select([descriptor], [], [], PATIENCE)[0]
        while select.select([descriptor], [], [], 0)[0]:
            ends.stream.send_multipart([b"them", b"eats it"])

    for n in range(50):
        ends.within(send_over_a_sign)
        ends.until(ends.ahead, n + 1)


def test_a_message_that_raises_in_who_takes_it_keeps_no_other_back(ends, caplog):
    def refuse(frames):
        if frames[1] == b"bad":
            raise ValueError("not this one")

    ends.on_ahead = refuse
    ends.client.send(b"bad")
    ends.client.send(b"good")
    ends.until(ends.ahead, 1)
    assert ends.ahead == [b"good"]
    assert "a control message could not be taken" in caplog.text


def test_a_message_that_raises_while_ipykernel_handles_it_is_told_at_once_and_not_when_it_is_freed(
    ends, caplog
):
    ends.client.send(b"ordinary bad")
    ends.client.send(b"ordinary good")
    ends.until(ends.left, 2)
    ends.within(gc.collect)
    assert "a control message could not be taken" in caplog.text
    assert "never retrieved" not in caplog.text


def test_threads_send_in_their_order_and_nothing_is_lost_either_way(ends):
    count, threads = 500, 4

    def speak(name):
        for n in range(count):
            ends.stream.send_multipart([b"them", b"%d %d" % (name, n)])

    speakers = [threading.Thread(target=speak, args=(name,)) for name in range(threads)]
    ends.on_ahead = lambda frames: ends.stream.send_multipart([b"them", b"answer " + frames[1]])
    for speaker in speakers:
        speaker.start()
    for n in range(2000):
        ends.client.send(b"%d" % n)
    for speaker in speakers:
        speaker.join(PATIENCE)
    heard = ends.heard(2000 + threads * count)
    assert [message for message in heard if message.startswith(b"answer")] == [
        b"answer %d" % n for n in range(2000)
    ]
    for name in range(threads):
        of_thread = [message for message in heard if message.startswith(b"%d " % name)]
        assert of_thread == [b"%d %d" % (name, n) for n in range(count)]


def test_a_flood_leaves_time_for_what_else_waits_in_the_thread(ends):
    began = threading.Event()
    go_on = threading.Event()

    def take(frames):
        began.set()
        go_on.wait(0.001)

    ends.on_ahead = take
    for n in range(1000):
        ends.client.send(b"%d" % n)
    assert began.wait(PATIENCE)
    taken = ends.within(lambda: len(ends.ahead))
    go_on.set()
    assert taken < 1000
    ends.until(ends.ahead, 1000)

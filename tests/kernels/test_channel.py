"""A channel: what comes is taken, whatever else is done with the socket meanwhile."""

from __future__ import annotations

import asyncio
import random
import select
import time

import pytest
import zmq

from codeact_kernel.errors import KernelLost
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.channel import Channel

PATIENCE = 10.0


class Peer:
    """The kernel's end of a channel, and what has come at ours."""

    def __init__(self, folder):
        self._context = zmq.Context()
        self.router = self._socket(zmq.ROUTER, folder, "control")
        self.publisher = self._socket(zmq.PUB, folder, "iopub")
        self.connection = {"transport": "ipc", "ip": f"{folder}/s", "control_port": 1, "iopub_port": 2}
        self.taken = []
        self.failures = []
        self._came = asyncio.Event()
        self.on_taken = lambda channel, frames: None
        self.on_failed = lambda channel: channel.reopen()

    def _socket(self, kind, folder, name):
        socket = self._context.socket(kind)
        socket.linger = socket.sndhwm = socket.rcvhwm = 0
        if kind == zmq.ROUTER:
            socket.router_handover = socket.router_mandatory = True
        socket.bind(f"ipc://{folder}/s-{1 if name == 'control' else 2}")
        return socket

    def open(self, name="control"):
        self.channel = Channel(self._context, self.connection, name, b"we", self._take, self._fail)
        return self.channel

    def _take(self, channel, frames):
        self.taken.append(frames)
        self._came.set()
        self.on_taken(channel, frames)

    def _fail(self, channel, error):
        self.failures.append(str(error))
        self.on_failed(channel)

    async def meet(self):
        """Wait until the peer can send to us."""
        self.channel.send([b"hello"])
        async with asyncio.timeout(PATIENCE):
            while not self.router.poll(0):
                await asyncio.sleep(0.001)
        assert self.router.recv_multipart() == [b"we", b"hello"]

    def tell(self, *frames):
        self.router.send_multipart([b"we", *frames])

    async def until(self, count):
        async with asyncio.timeout(PATIENCE):
            while len(self.taken) < count:
                self._came.clear()
                await self._came.wait()

    def close(self):
        self.channel.close()
        self._context.destroy(linger=0)


@pytest.fixture
async def peer(tmp_path_factory):
    peer = Peer(tmp_path_factory.mktemp("c"))
    peer.open()
    await peer.meet()
    yield peer
    peer.close()


def signs(channel, patience):
    """Whether the channel's descriptor tells that something has happened."""
    return bool(select.select([channel._socket.fileno()], [], [], patience)[0])


async def test_a_message_whose_sign_a_send_has_taken_in_is_taken(peer):
    for n in range(50):
        await asyncio.sleep(0)
        assert not signs(peer.channel, 0)
        peer.tell(b"%d" % n)
        assert signs(peer.channel, PATIENCE)
        # libzmq looks for signs at most every millisecond or so while it sends.
        while signs(peer.channel, 0):
            peer.channel.send([b"eats it"])
        await peer.until(n + 1)
        assert peer.taken[-1] == [b"%d" % n]


async def test_a_message_that_comes_right_after_the_last_one_was_taken_is_taken(peer):
    def answer(channel, frames):
        # While the reader is on its way to see that nothing more is there.
        if len(peer.taken) < 500:
            peer.tell(b"%d" % len(peer.taken))

    peer.on_taken = answer
    peer.tell(b"0")
    await peer.until(500)
    assert peer.taken == [[b"%d" % n] for n in range(500)]


async def test_of_sends_and_messages_at_random_all_arrive_in_order(peer):
    chance = random.Random(1)
    told = sent = 0
    heard = []

    def answer(channel, frames):
        nonlocal sent
        if chance.random() < 0.3:
            channel.send([b"%d" % sent])
            sent += 1

    peer.on_taken = answer
    while told < 5000:
        for _ in range(chance.randrange(4)):
            peer.tell(b"%d" % told)
            told += 1
        for _ in range(chance.randrange(3)):
            peer.channel.send([b"%d" % sent])
            sent += 1
        if chance.random() < 0.5:
            await asyncio.sleep(0)
    await peer.until(told)
    assert peer.taken == [[b"%d" % n] for n in range(told)]
    while len(heard) < sent:
        assert peer.router.poll(PATIENCE * 1000)
        heard.append(peer.router.recv_multipart()[1])
    assert heard == [b"%d" % n for n in range(sent)]


async def test_messages_have_as_many_parts_and_bytes_as_were_sent(peer):
    parts = [b"", b"x" * 2**21, b"\x00", b""]
    peer.tell(*parts)
    await peer.until(1)
    assert peer.taken == [parts]
    peer.channel.send(parts)
    assert peer.router.poll(PATIENCE * 1000)
    assert peer.router.recv_multipart()[1:] == parts


async def test_a_flood_leaves_time_for_other_tasks(peer):
    turns, count = 0, 200
    for n in range(count):
        peer.tell(b"%d" % n)
    while not signs(peer.channel, PATIENCE):
        pass
    peer.on_taken = lambda channel, frames: time.sleep(0.001)
    while len(peer.taken) < count:
        await asyncio.sleep(0)
        turns += 1
    # 200 ms of work in turns of 5 ms.
    assert turns > 20


@pytest.mark.parametrize("name", ["control", "iopub"])
async def test_a_socket_that_is_closed_under_its_reader_is_told_of_and_made_anew(peer, name):
    if name == "iopub":
        peer.channel.close()
        peer.open("iopub")
    peer.channel._socket.close(linger=0)
    async with asyncio.timeout(PATIENCE):
        while not peer.failures:
            await asyncio.sleep(0)
        if name == "control":
            await peer.meet()
        while not peer.taken:
            peer.publisher.send(b"news") if name == "iopub" else peer.tell(b"news")
            await asyncio.sleep(0.001)
    assert peer.failures == ["it was closed"]
    assert peer.taken[0] == [b"news"]


async def test_reader_and_writer_of_a_socket_that_failed_tell_of_it_once(peer):
    peer.channel._socket.close(linger=0)
    await peer.meet()
    await asyncio.sleep(0)
    assert len(peer.failures) == 1


async def test_a_socket_that_is_not_made_anew_is_left_alone_and_its_writer_hears_why(peer):
    def give_up(channel):
        raise KernelLost("no more")

    peer.on_failed = give_up
    peer.channel._socket.close(linger=0)
    await asyncio.sleep(0)
    with pytest.raises(KernelLost):
        peer.channel.send([b"x"])
    assert len(peer.failures) == 2


@pytest.mark.parametrize("what", ["close", "reopen"])
async def test_what_takes_a_message_may_close_the_socket_or_make_it_anew(peer, what):
    peer.on_taken = lambda channel, frames: getattr(channel, what)()
    for _ in range(10):
        peer.tell(b"x")
    await peer.until(1)
    await asyncio.sleep(0)
    if what == "reopen":
        await peer.meet()
        peer.tell(b"new")
        await peer.until(2)
        assert peer.taken[-1] == [b"new"]
    assert peer.failures == []


async def test_sockets_are_made_anew_a_hundred_times_and_no_reader_stays_behind(peer):
    for n in range(100):
        peer.channel.reopen()
        await peer.meet()
        peer.tell(b"%d" % n)
        await peer.until(n + 1)
    descriptor = peer.channel._socket.fileno()
    peer.channel.close()
    assert not asyncio.get_running_loop().remove_reader(descriptor)
    peer.channel.close()


def test_nothing_is_received_where_nothing_has_come():
    with zmq.Context() as context, context.socket(zmq.PAIR) as here, context.socket(zmq.PAIR) as there:
        here.bind("inproc://here")
        there.connect("inproc://here")
        assert wire.receive(here) is None
        wire.send(there, [b"a", b"b"])
        assert wire.has_come(here)
        assert wire.receive(here) == [b"a", b"b"]
        assert not wire.has_come(here)
        here.close()
        with pytest.raises(zmq.ZMQError):
            wire.receive(here)

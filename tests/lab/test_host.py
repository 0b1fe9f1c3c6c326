"""The host behind a notebook: what is asked of it, in whatever order, never ends it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from codeact_kernel.inkernel import wire
from codeact_kernel.lab.host import Host
from codeact_kernel.lab.session import Session, Wanted


class OddHost(Host):
    """Answers some things of its own."""

    async def _do_slow(self, asked):
        await asyncio.Event().wait()

    async def _do_full(self, asked):
        raise OSError(28, "No space left on device", "x")

    async def _do_fault(self, asked):
        raise ZeroDivisionError("a mistake")


class Line:
    """The magic's end."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def say(self, **message):
        self.writer.write(wire.to_frame(message))

    async def heard(self):
        head = await self.reader.readexactly(wire.HEAD)
        return wire.from_body(await self.reader.readexactly(wire.length_of(head)))


@pytest.fixture
async def line(tmp_path):
    ours, theirs = socket.socketpair()
    line = Line(*await asyncio.open_connection(sock=ours))
    ends = await asyncio.open_connection(sock=theirs)
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, about: faults.append(about["exception"]))
    line.serving = serving = asyncio.create_task(OddHost(tmp_path, tmp_path).serve(*ends))
    assert (await line.heard())["tell"] == "ready"
    yield line
    line.writer.close()
    async with asyncio.timeout(5):
        await serving
    ends[1].close()
    assert all(isinstance(fault, ZeroDivisionError) for fault in faults)


async def test_what_takes_long_holds_up_nothing_else(line):
    line.say(do="slow", number=1)
    line.say(do="list", number=2)
    assert await line.heard() == {"re": 2, "ok": True, "runs": []}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"do": "full"}, "x: No space left on device"),
        ({"do": "fault"}, "a fault of codeact-kernel: ZeroDivisionError: a mistake"),
        ({"do": "fly"}, "this host does not know 'fly'"),
        ({"do": "begin"}, "this is no request: KeyError('task')"),
        ({"do": "replay", "file": "x", "speed": "fast"}, "this is no request: ValueError"),
        ({"do": "stop"}, "no agent was started in this notebook"),
        ({"do": "show", "run": "x"}, "there is no such run"),
    ],
)
async def test_what_cannot_be_is_answered_and_the_host_goes_on(line, asked, why):
    line.say(number=1, **asked)
    assert (await line.heard())["error"].startswith(why)
    line.say(do="list", number=2)
    assert (await line.heard())["ok"]


async def test_what_cannot_be_read_ends_it(line):
    line.writer.write(b"\xff" * 20)
    async with asyncio.timeout(5):
        await line.serving


class Broken(Session):
    def _make(self):
        raise ZeroDivisionError("a mistake")


async def test_a_fault_of_ours_is_told_to_the_cell_that_waits(tmp_path):
    told = []
    session = Broken(Wanted("x"), tmp_path, tmp_path, told.append)
    session.begin(Wanted("x", rerun=True))
    with pytest.raises(ZeroDivisionError):
        await session.live()
    end = told[-1]
    assert (end["tell"], end["stop"]) == ("ended", "failed")
    assert end["message"] == "a fault of codeact-kernel: ZeroDivisionError: a mistake"
    assert session.ended

"""Calls from code, answered in the loop or by the thread that has made the result."""

from __future__ import annotations

import asyncio
import threading

import pytest

from codeact_kernel.errors import ToolError
from codeact_kernel.inkernel.wire import unpack
from codeact_kernel.kernels.calls import SMALL, Calls
from codeact_kernel.kernels.large import Large


class Sent:
    """What was sent, by which thread."""

    def __init__(self, works=True):
        self.works = works
        self.returns = []
        self.threads = []
        self.messages = 0

    def __call__(self, content):
        self.messages += 1
        self.returns += content["returns"]
        self.threads += [threading.current_thread()] * len(content["returns"])

    def from_thread(self, content):
        if self.works:
            self(content)
        return self.works

    @property
    def values(self):
        return [unpack(r["value"]) for r in self.returns if "value" in r]


def call(number, value):
    return {"call": number, "name": "echo", "args": [], "kwargs": {"x": value}, "of": None}


async def in_thread(name, args, kwargs, msg_id, back):
    def work():
        back.give(kwargs["x"])
        return kwargs["x"]

    return await asyncio.to_thread(work)


async def answered(sent, serve, *calls, large=None):
    there = Calls(sent, sent.from_thread)
    there.serve, there.large = serve, large
    for one in calls:
        there.take(one)
    await asyncio.gather(*there._running.values())
    await asyncio.sleep(0)
    return there


async def test_a_thread_hands_its_result_back_by_itself_and_only_once():
    sent = Sent()
    there = await answered(sent, in_thread, call(1, 7))
    assert sent.values == [7]
    assert sent.threads != [threading.current_thread()]
    there.take(call(1, 7))
    await asyncio.sleep(0)
    assert sent.values == [7, 7], "asked for again, it is sent again and not made again"


@pytest.mark.parametrize("value", ["x" * (SMALL + 1), [object()]])
async def test_what_a_thread_should_not_or_cannot_send_goes_the_ordinary_way(value):
    async def serve(name, args, kwargs, msg_id, back):
        await asyncio.to_thread(back.give, value)
        return value

    sent = Sent()
    await answered(sent, serve, call(1, None))
    (answer,) = sent.returns
    assert sent.threads == [threading.current_thread()]
    assert answer["status"] == ("ok" if isinstance(value, str) else "error")


async def test_where_the_socket_has_failed_the_loop_sends_it():
    sent = Sent(works=False)
    await answered(sent, in_thread, call(1, 7))
    assert sent.values == [7]
    assert sent.threads == [threading.current_thread()]


async def test_an_error_after_a_given_result_changes_nothing():
    async def serve(name, args, kwargs, msg_id, back):
        await asyncio.to_thread(back.give, 1)
        raise ToolError("too late")

    sent = Sent()
    await answered(sent, serve, call(1, None))
    assert sent.values == [1]
    assert len(sent.returns) == 1


async def test_calls_that_end_together_are_answered_in_one_message():
    async def serve(name, args, kwargs, msg_id, back):
        return kwargs["x"]

    sent = Sent()
    await answered(sent, serve, *(call(n, n) for n in range(1, 51)))
    assert sorted(sent.values) == list(range(1, 51))
    assert sent.messages <= 2


async def test_a_large_result_becomes_a_file(tmp_path):
    async def serve(name, args, kwargs, msg_id, back):
        return "x" * 1000

    sent = Sent()
    await answered(sent, serve, call(1, None), large=Large(tmp_path, 100))
    assert sent.returns[0]["large"]["bytes"] == 1002

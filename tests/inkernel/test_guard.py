"""Interrupts that can only land where they were meant to."""

from __future__ import annotations

import threading

import pytest

from codeact_kernel.inkernel.guard import Guard, GuardedCoroutine, TaskEnded
from codeact_kernel.inkernel.request import Request


def request() -> Request:
    return Request([], {"header": {"msg_id": "m"}, "content": {"code": ""}}, None)


def test_an_interrupt_lands_in_the_code_of_its_request():
    guard, asked, started, ended = Guard(), request(), threading.Event(), []

    def spin():
        started.set()
        while True:
            pass

    def work():
        try:
            guard.call(asked, spin)
        except KeyboardInterrupt:
            ended.append("interrupted")

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    assert guard.interrupt(asked)
    thread.join(10)
    assert ended == ["interrupted"]


def test_an_interrupt_of_another_request_does_nothing():
    guard, asked, other = Guard(), request(), request()
    assert guard.call(asked, lambda: guard.interrupt(other)) is False


def test_an_interrupt_that_comes_with_the_end_of_the_code_never_lands_in_ours():
    """The worst instant, thousands of times: another thread interrupts while the code is ending."""
    guard, escaped, sent = Guard(), [], 0
    requests = [request() for _ in range(3000)]
    now = [requests[0]]
    stop = threading.Event()

    def attack():
        nonlocal sent
        while not stop.is_set():
            sent += guard.interrupt(now[0])

    attacker = threading.Thread(target=attack)

    def work():
        for asked in requests:
            now[0] = asked
            try:
                guard.call(asked, sum, range(50))
            except KeyboardInterrupt:
                guard.close()
            try:
                sum(range(300))
            except KeyboardInterrupt:
                escaped.append(asked)

    worker = threading.Thread(target=work)
    attacker.start()
    worker.start()
    worker.join(60)
    stop.set()
    attacker.join()
    assert sent > 0
    assert escaped == []


async def test_what_would_end_the_loop_leaves_a_task_as_an_ordinary_error():
    async def leave():
        raise SystemExit(3)

    with pytest.raises(TaskEnded, match="SystemExit: 3"):
        await GuardedCoroutine(Guard(), request(), leave())
    with pytest.raises(SystemExit):
        await GuardedCoroutine(Guard(), request(), leave(), raw=True)


async def test_values_and_exceptions_pass_through_a_guarded_coroutine():
    import asyncio

    async def work():
        await asyncio.sleep(0)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "cleaned"

    task = asyncio.ensure_future(GuardedCoroutine(Guard(), request(), work()))
    await asyncio.sleep(0.01)
    task.cancel()
    assert await task == "cleaned"

"""Interrupts that can only land where they were meant to."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time

import pytest

from codeact_kernel.inkernel.guard import Guard, adopt_callbacks
from codeact_kernel.inkernel.guarded import GuardedCoroutine, TaskEnded
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


of_the_interpreter = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def busy_switching():
    """Threads take turns every ten microseconds, so that the worst instants really come."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_an_interrupt_that_comes_with_the_end_of_the_code_never_lands_in_ours(busy_switching):
    """The worst instant, again and again: another thread interrupts while the code is ending."""
    guard, landed, escaped, sent = Guard(), 0, [], 0
    now = [request()]
    stop = threading.Event()

    def count():
        for _ in range(500):
            pass

    def attack():
        nonlocal sent
        while not stop.is_set():
            sent += guard.interrupt(now[0])

    def work():
        nonlocal landed
        end = time.monotonic() + 30
        while landed < 5 and time.monotonic() < end:
            now[0] = asked = request()
            try:
                guard.call(asked, count)
            except KeyboardInterrupt:
                landed += 1
                guard.close()
            try:
                sum(range(300))
            except KeyboardInterrupt:
                escaped.append(asked)
        stop.set()

    threads = [threading.Thread(target=attack), threading.Thread(target=work)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert landed >= 5
    assert escaped == []


def test_code_can_be_traced_after_an_interrupt_that_came_too_late():
    guard, asked, traced = Guard(), request(), []

    def work():
        with contextlib.suppress(KeyboardInterrupt):
            guard.call(asked, guard.interrupt, asked)
        sys.settrace(lambda frame, event, arg: traced.append(event))
        try:
            json.dumps({})
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(10)
    assert "call" in traced
    assert not thread.is_alive()


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


@pytest.fixture
def reported(monkeypatch):
    """What is raised in callbacks of the interpreter's, where no interrupt comes again."""
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: reported.append(dropped.exc_type))
    adopt_callbacks()
    return reported


@of_the_interpreter
def test_an_interrupt_that_lands_in_a_del_inside_of_another_one_ends_the_code(reported):
    guard, asked, inside = Guard(), request(), threading.Event()

    class Inner:
        def __del__(self):
            inside.set()
            while not interrupted.is_set():
                pass
            for _ in range(1000):
                pass

    class Outer:
        def __del__(self):
            Inner()
            for _ in range(1000):
                pass

    def drop():
        while True:
            Outer()

    interrupted, ended = threading.Event(), []

    def work():
        try:
            guard.call(asked, drop)
        except KeyboardInterrupt:
            ended.append("interrupted")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    inside.wait()
    assert guard.interrupt(asked)
    interrupted.set()
    thread.join(10)
    assert ended == ["interrupted"]
    assert reported == []


@of_the_interpreter
def test_what_the_code_itself_raises_in_a_del_is_reported_and_ends_nothing(reported):
    class Dropped:
        def __del__(self):
            raise KeyboardInterrupt

    assert Guard().call(request(), lambda: [Dropped() and None for _ in range(3)]) == [None] * 3
    assert reported == [KeyboardInterrupt] * 3

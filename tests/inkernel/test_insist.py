"""An interrupt that is not swallowed, and hits nobody else."""

import collections
import contextlib
import socket
import sys
import threading
import time

import pytest

from codeact_kernel.inkernel.guard import Guard


@pytest.fixture
def quiet(monkeypatch):
    """What is hit in a callback of the interpreter's is nobody's; and pytest's own hook for it is Python code.

    Older versions of pytest set that hook when the test is called, in the place of this one: what it hears then is no
    failure either.
    """
    monkeypatch.setattr(sys, "unraisablehook", collections.deque(maxlen=0).append)


of_the_interpreter = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def swallows(started):
    while True:
        try:
            started.set()
            time.sleep(0.02)
        except KeyboardInterrupt:
            pass


def swallows_twice(started):
    while True:
        try:
            while True:
                try:
                    started.set()
                    time.sleep(0.01)
                except BaseException:
                    continue
        except BaseException:
            continue


def swallows_in_finally(started):
    while True:
        try:
            started.set()
            time.sleep(0.01)
        finally:
            continue  # noqa: B012


def swallows_in_a_library(started):
    while True:
        with contextlib.suppress(BaseException):
            started.set()
            time.sleep(0.01)


def swallows_in_a_generator(started):
    def numbers():
        while True:
            try:
                yield time.sleep(0.001)
            except BaseException:
                continue

    while True:
        try:
            for _ in numbers():
                started.set()
        except BaseException:
            continue


SWALLOWERS = [swallows, swallows_twice, swallows_in_finally, swallows_in_a_library, swallows_in_a_generator]


def start(guard, request, function):
    """Run a function in a thread of its own under a guard; returns the thread, what ended it, and what it traced."""
    started, ends = threading.Event(), []

    def work():
        try:
            guard.call(request, function, started)
        except BaseException as end:
            ends.append(end)
        ends.append(sys.gettrace())

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert started.wait(10)
    return thread, ends


@of_the_interpreter
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("function", SWALLOWERS)
def test_code_that_swallows_interrupts_is_ended_and_the_thread_is_as_before(function):
    guard, request = Guard(), object()
    thread, ends = start(guard, request, function)
    for _ in range(5):
        guard.interrupt(request, insisting=True)
        thread.join(2)
    assert not thread.is_alive()
    assert isinstance(ends[0], KeyboardInterrupt)
    assert ends[1] is None


def test_while_one_is_insisted_on_for_long_no_other_thread_is_hit_or_watched():
    locked = threading.Lock()
    locked.acquire()

    def waits_in_c(started):
        started.set()
        locked.acquire()

    def counts(started):
        n = 0
        started.set()
        while n < 200_000:
            n += 1
        counted.append(n)

    counted = []
    guard, request = Guard(), object()
    thread, ends = start(guard, request, waits_in_c)
    guard.interrupt(request, insisting=True)
    other, other_ends = start(Guard(), object(), counts)
    other.join(20)
    assert (counted, other_ends) == ([200_000], [None])
    locked.release()
    thread.join(10)
    assert isinstance(ends[0], KeyboardInterrupt)
    if sys.version_info >= (3, 12):
        assert sys.monitoring.get_events(4) == 0


def test_the_thread_s_next_code_is_not_hit():
    guard, request, ends = Guard(), object(), []
    started = threading.Event()

    def work():
        with contextlib.suppress(KeyboardInterrupt):
            guard.call(request, swallows, started)
        ends.append(guard.call(object(), lambda: sum(range(100_000))))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert started.wait(10)
    while thread.is_alive() and not ends:
        guard.interrupt(request, insisting=True)
        thread.join(0.2)
    thread.join(10)
    assert ends == [sum(range(100_000))]


@of_the_interpreter
@pytest.mark.usefixtures("quiet")
def test_a_call_in_c_that_fails_while_interrupts_are_on_their_way_leaves_nothing_open_and_nothing_hit():
    """What was sent before lands on the first lines of ours; as many at once as can come, and round after round."""

    for _ in range(30):
        with socket.create_server(("127.0.0.1", 0)) as server:

            def accepts(started):
                started.set()
                server.accept()

            guard, request = Guard(), object()
            thread, ends = start(guard, request, accepts)
            guard.interrupt(request)
            guard.interrupt(request, insisting=True)
            server.shutdown(socket.SHUT_RDWR)
            end = time.monotonic() + 10
            while thread.is_alive() and time.monotonic() < end:
                guard.interrupt(request, insisting=True)
                time.sleep(0)
        assert isinstance(ends[0], KeyboardInterrupt | OSError)
        assert ends[1] is None
        assert guard.interrupt(request) is False

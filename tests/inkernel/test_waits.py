"""Waits in slices do what the waits that they replace do."""

import os
import queue
import threading
import time

import pytest

from codeact_kernel.inkernel import waits
from codeact_kernel.inkernel.request import Request, current


class Box:
    """No outbox is needed here."""


@pytest.fixture
def sliced(monkeypatch):
    """Runs a function in a thread of a request, with the waits adopted."""
    monkeypatch.setattr(time, "sleep", time.sleep)
    monkeypatch.setattr(threading.Thread, "join", threading.Thread.join)
    monkeypatch.setattr(threading, "_allocate_lock", threading._allocate_lock)
    waits.adopt_waits()

    def run(function):
        results = []

        def work():
            current.set(Request([], {"content": {}, "header": {}}, Box()))
            results.append(function())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(20)
        return results[0]

    return run


def took(function):
    begun = time.monotonic()
    value = function()
    return value, time.monotonic() - begun


def test_a_sleep_takes_its_time_and_not_much_more(sliced):
    assert 0.12 <= sliced(lambda: took(lambda: time.sleep(0.12)))[1] < 1
    assert sliced(lambda: took(lambda: time.sleep(0)))[1] < 0.5
    with pytest.raises(ValueError, match="non-negative"):
        time.sleep(-1)


def test_a_wait_ends_when_what_it_waits_for_comes_and_says_so(sliced):
    event, things = threading.Event(), queue.Queue()
    threading.Timer(0.15, event.set).start()
    threading.Timer(0.15, things.put, ("thing",)).start()
    assert sliced(event.wait) is True
    assert sliced(things.get) == "thing"


def test_a_wait_with_a_limit_ends_at_it_and_says_so(sliced):
    assert sliced(lambda: threading.Event().wait(0)) is False
    value, seconds = sliced(lambda: took(lambda: threading.Event().wait(0.12)))
    assert (value, 0.12 <= seconds < 1) == (False, True)
    value, seconds = sliced(lambda: took(lambda: threading.Event().wait(0.01)))
    assert (value, seconds < 1) == (False, True)


def test_a_thread_is_waited_for_until_it_ends_or_the_limit(sliced):
    release = threading.Event()
    thread = threading.Thread(target=release.wait, daemon=True)
    thread.start()
    assert 0.1 <= sliced(lambda: took(lambda: thread.join(0.1)))[1] < 1
    assert thread.is_alive()
    threading.Timer(0.1, release.set).start()
    sliced(thread.join)
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_fork_in_such_a_thread_raises_nothing(sliced):
    def fork():
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(write, 2)
            threading.Thread(target=int).start()
            os._exit(0)
        os.close(write)
        os.waitpid(pid, 0)
        with open(read, "rb") as file:
            return file.read()

    assert sliced(fork) == b""

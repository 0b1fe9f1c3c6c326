"""Threads that never end, and signals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from codeact_kernel.cli.loop import DaemonThreads, in_loop


async def test_threads_give_results_and_exceptions():
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    assert await asyncio.gather(*(asyncio.to_thread(pow, 2, n) for n in range(100))) == [
        2**n for n in range(100)
    ]
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(lambda: 1 / 0)


def test_there_are_never_more_threads_than_are_allowed_and_idle_ones_are_used_again():
    threads, together, begun = DaemonThreads(), threading.Event(), threading.Semaphore(0)

    def work():
        begun.release()
        together.wait(10)
        return threading.current_thread().name

    futures = [threads.submit(work) for _ in range(100)]
    for _ in range(32):
        assert begun.acquire(timeout=10)
    assert not begun.acquire(blocking=False)
    together.set()
    assert len({future.result(10) for future in futures}) == 32


def test_what_was_cancelled_before_its_turn_never_runs():
    threads, go, ran = DaemonThreads(), threading.Event(), []
    busy = [threads.submit(go.wait, 10) for _ in range(32)]
    late = threads.submit(ran.append, 1)
    assert late.cancel()
    go.set()
    assert all(future.result(10) for future in busy)
    assert threads.submit(len, ran).result(10) == 0


def test_a_thread_that_never_ends_does_not_hold_up_the_exit():
    script = """
import asyncio, threading, sys
from codeact_kernel.cli.loop import in_loop
async def work(signals):
    begun = threading.Event()
    asyncio.create_task(asyncio.to_thread(lambda: (begun.set(), threading.Event().wait())))
    while not begun.is_set():
        await asyncio.sleep(0)
    return 7
sys.exit(in_loop(work))
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=30, check=False).returncode == 7


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_with_nothing_going_on_ends_the_command(capsys, number, code):
    async def work(signals):
        os.kill(os.getpid(), number)
        await asyncio.Event().wait()

    assert in_loop(work) == code
    assert capsys.readouterr().err == "codeact: it was stopped\n"


def test_signals_mean_what_is_said_of_them_and_nothing_while_things_end():
    heard = []

    async def work(signals):
        signals.on_interrupt = lambda: heard.append("interrupt")
        os.kill(os.getpid(), signal.SIGINT)
        while not heard:
            await asyncio.sleep(0)
        signals.rest()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.01)
        return 0

    assert in_loop(work) == 0
    assert heard == ["interrupt"]


def test_a_signal_that_this_process_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:

        async def work(signals):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0.01)
            return 0

        assert in_loop(work) == 0
    finally:
        signal.signal(signal.SIGHUP, before)

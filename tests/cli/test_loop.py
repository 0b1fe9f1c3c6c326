"""Threads that never end, and signals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from codeact_kernel.cli.loop import in_loop


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

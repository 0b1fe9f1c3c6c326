"""Threads that nothing waits for at the end."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from codeact_kernel.threads import DaemonThreads


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


async def test_a_call_in_a_thread_gives_its_result_or_its_exception_in_the_caller_s_context():
    variable, threads = contextvars.ContextVar("variable"), DaemonThreads()
    variable.set(7)
    assert await threads.run(lambda a, b=0: (a, b, variable.get()), 1, b=2) == (1, 2, 7)
    assert await threads.run(lambda: threading.current_thread().daemon)
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 / 0)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(1)])
async def test_what_would_end_the_loop_is_an_ordinary_error(error):
    def work():
        raise error

    with pytest.raises(RuntimeError, match=type(error).__name__):
        await DaemonThreads().run(work)


async def test_a_call_that_was_cancelled_before_its_turn_never_runs_and_later_runs_for_nobody():
    threads, go, ran = DaemonThreads(), threading.Event(), []
    busy = [threads.run(go.wait, 10) for _ in range(32)]
    late = threads.run(ran.append, 1)
    late.cancel()
    busy[0].cancel()
    go.set()
    assert all(await asyncio.gather(*busy[1:]))
    assert await threads.run(len, ran) == 0


def test_a_result_that_comes_when_the_loop_is_closed_is_dropped():
    threads, go, done = DaemonThreads(), threading.Event(), threading.Event()

    def work():
        go.wait(10)
        return done

    async def start():
        threads.run(work)

    asyncio.run(start())
    go.set()
    assert threads.submit(lambda: 1).result(10) == 1

"""Runs a command's coroutine: Ctrl-C, requests to end, and threads that never do.

Comes in: a coroutine function. Goes out: its exit code. Signals are taken in the loop, and whoever runs
something there says what they mean at the moment; with nothing running they cancel the command.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from codeact_kernel.cli.streams import complain

INTERRUPTED = 130
"""The exit code of what the user has stopped: 128 and the number of SIGINT, as shells have it."""
_THREADS = 32
"""Tools that run at once outside of the loop; as many as asyncio's own pool has at most."""

P = ParamSpec("P")
T = TypeVar("T")


class Signals:
    """What signals mean at the moment.

    Args:
        meaning: What they mean while nobody says anything else.
    """

    def __init__(self, meaning: Callable[[], object]) -> None:
        self.on_interrupt: Callable[[], object] = meaning
        """Ctrl-C."""
        self.on_end: Callable[[], object] = meaning
        """Somebody wants this process to end, or its terminal is gone."""
        self.code = INTERRUPTED
        """What the command exits with when it was stopped."""

    def take(self) -> None:
        """Take the signals that this process does not ignore; elsewhere than on POSIX asyncio takes Ctrl-C."""
        loop = asyncio.get_running_loop()
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                with suppress(NotImplementedError):
                    loop.add_signal_handler(number, self._came, number)

    def rest(self) -> None:
        """Let signals mean nothing: what is going on ends by itself in a moment, and must not be broken off."""
        self.on_interrupt = self.on_end = lambda: None

    def _came(self, number: signal.Signals) -> None:
        if number is signal.SIGINT:
            self.on_interrupt()
        else:
            self.code = 128 + number
            self.on_end()


def in_loop(work: Callable[[Signals], Coroutine[Any, Any, int]]) -> int:
    """Run a command's coroutine to its end.

    Args:
        work: Gets the signals, and returns the exit code.

    Raises:
        CodeactError: What the coroutine raises.
    """

    async def main() -> int:
        task = asyncio.current_task()
        assert task is not None
        signals = Signals(task.cancel)
        signals.take()
        asyncio.get_running_loop().set_default_executor(DaemonThreads())
        try:
            return await work(signals)
        except asyncio.CancelledError:
            complain("it was stopped")
            return signals.code

    return asyncio.run(main())


class DaemonThreads(ThreadPoolExecutor):
    """Threads that do not keep the process: a tool that never returns must not hang the exit.

    `ThreadPoolExecutor`, which asyncio asks for, waits for its threads whatever it is told.
    """

    def __init__(self) -> None:
        super().__init__(_THREADS)
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in a thread; as in `Executor`."""
        future: Future[T] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        self._waiting.put(work)
        if not self._idle.acquire(blocking=False) and self._started < _THREADS:
            self._started += 1
            threading.Thread(target=self._serve, name=f"tool-{self._started}", daemon=True).start()
        return future

    def _serve(self) -> None:
        while True:
            self._waiting.get()()
            self._idle.release()

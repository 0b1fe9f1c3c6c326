"""Runs a command's coroutine: Ctrl-C, requests to end, and threads that are not waited for.

Comes in: a coroutine function. Goes out: its exit code. Signals are taken in the loop, and whoever runs
something there says what they mean at the moment; with nothing running they cancel the command.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from codeact_kernel.cli.streams import complain
from codeact_kernel.threads import DaemonThreads

INTERRUPTED = 130
"""The exit code of what the user has stopped: 128 and the number of SIGINT, as shells have it."""


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

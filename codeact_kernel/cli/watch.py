"""`codeact watch`: a run as it goes on, in whatever process that is.

Comes in: a run's folder. Goes out: a picture on stdout that is drawn anew until the run has ended or the user leaves.
The run does not notice.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codeact_kernel.cli import options
from codeact_kernel.cli.screens import REFRESH
from codeact_kernel.cli.streams import is_terminal

if TYPE_CHECKING:
    from rich.console import Console

    from codeact_kernel.agent import WatchedRun
    from codeact_kernel.cli.loop import Signals

WIDTH = 200
"""Columns of a picture that goes to a file or a pipe."""

RunPlace = Annotated[
    Path | None,
    typer.Argument(
        metavar="RUN", help="The run's folder, or its run.ipynb; without one the workspace's latest."
    ),
]
Once = Annotated[
    bool, typer.Option("--once", help="Print one picture, and end; as where stdout is no terminal.")
]


def watch(run: RunPlace = None, workspace: options.Workspace = ".", once: Once = False) -> int:
    """Watch a run: its agents, what each of them does, what it has used, how full its context is.

    It reads what the run writes down, and disturbs nothing: leave with q or Ctrl-C, and come back. It ends by itself
    when the run has ended; the exit code is 0. A run that has ended long ago is shown as it ended.
    """
    from codeact_kernel.agent import WatchedRun, find_run
    from codeact_kernel.cli.console import TerminalConsole
    from codeact_kernel.cli.loop import in_loop

    folder = find_run(None if run is None else run.expanduser(), Path(workspace).expanduser())
    watched = WatchedRun(folder)
    width = None if is_terminal(sys.stdout) else WIDTH
    console = TerminalConsole(width=width, highlight=False, markup=False, emoji=False)
    if once or not console.is_interactive:
        return _print(watched, console)
    return in_loop(lambda signals: _follow(watched, console, signals))


def _print(run: WatchedRun, console: Console) -> int:
    from codeact_kernel.cli.watched import told_run

    while run.poll():
        pass
    console.print(told_run(run, time.time(), sys.maxsize))
    return 0


async def _follow(run: WatchedRun, console: Console, signals: Signals) -> int:
    from rich.live import Live

    from codeact_kernel.cli.watched import told_run

    left = asyncio.Event()
    signals.on_interrupt = signals.on_end = left.set
    live = Live(console=console, auto_refresh=False)
    with _keys(left.set), live:
        while True:
            more = run.poll()
            live.update(told_run(run, time.time(), console.height - 1), refresh=True)
            if run.is_over or left.is_set():
                return 0
            with suppress(TimeoutError):
                async with asyncio.timeout(0 if more else REFRESH):
                    await left.wait()


@contextmanager
def _keys(leave: Callable[[], object]) -> Iterator[None]:
    """Call this when the user types q; keys are read one by one, and not shown, meanwhile."""
    fd = sys.stdin.fileno() if is_terminal(sys.stdin) else -1
    if sys.platform == "win32" or fd < 0 or os.tcgetpgrp(fd) != os.getpgrp():
        yield
        return
    import termios
    import tty

    def typed() -> None:
        keys = os.read(fd, 1024)
        if not keys:
            loop.remove_reader(fd)
        elif set(keys.lower()) & set(b"q\x04"):
            leave()

    loop, before = asyncio.get_running_loop(), termios.tcgetattr(fd)
    tty.setcbreak(fd)
    loop.add_reader(fd, typed)
    try:
        yield
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)

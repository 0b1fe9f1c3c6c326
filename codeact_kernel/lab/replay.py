"""A recorded run, shown again in a notebook as it went. Nothing of it runs.

Comes in: a record of anybody. Goes out: what the magic is told, as of a run that goes on.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

from codeact_kernel.agent import RecordedRun, moments
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import RunEnded, RunStarted, TurnStarted
from codeact_kernel.lab.cells import Cells
from codeact_kernel.lab.session import Tell
from codeact_kernel.lab.showing import Showing

LONGEST = 10.0
"""Seconds that are waited at once at most: what was silent for an hour is no better for being watched."""


class Replay:
    """Shows one record.

    Args:
        file: The run's folder, its journal, or its notebook.
        speed: How many times as fast; 0 shows it at once.
        step: Whether it waits before each turn but the first, until somebody says to go on.

    Raises:
        ConfigError: If there is no such record, or the speed is none.
        RecordError: If it cannot be read.
    """

    def __init__(self, file: Path, speed: float, step: bool = False) -> None:
        if not 0 <= speed < float("inf"):
            raise ConfigError(f"--speed {speed}: it is a number that is not negative")
        self._recorded = RecordedRun.load(file)
        self._moments = moments(self._recorded)
        self._speed = speed
        self._step = step
        self._stopped = asyncio.Event()
        self._next = asyncio.Event()
        self.showing: Showing | None = None

    def show(self, tell: Tell, page: Callable[[], bool], cell: str | None, terminal: bool) -> Showing:
        """Make what is shown.

        Args:
            tell: Tells the magic something.
            page: Whether some page shows what goes on.
            cell: The id of the notebook's cell.
            terminal: Whether text is told, and no output is updated.
        """
        about = self._recorded.about
        protocol = str(about.options.get("protocol", "tags"))
        cells = Cells(f"ck-{uuid.uuid4().hex[:10]}", self._recorded.task, protocol, self._changed)
        self.showing = Showing(cells, tell, page, cell, terminal=terminal)
        self._tell = tell
        return self.showing

    def stop(self) -> None:
        """Show nothing more of it."""
        self._stopped.set()
        self._next.set()

    def go_on(self) -> None:
        """Show the next turn."""
        self._next.set()

    async def live(self) -> None:
        """Show it, to its end or until it is stopped."""
        showing = self.showing
        assert showing is not None
        async with showing:
            before: float | None = None
            for at, event in self._moments:
                wait = 0.0 if before is None or not self._speed or self._step else (at - before) / self._speed
                before = at
                if self._step and isinstance(event, TurnStarted) and event.turn > 1:
                    await self._stepped(showing)
                if await self._waits(min(wait, LONGEST)):
                    break
                if not isinstance(event, RunStarted | RunEnded):
                    showing.cells(event)
                elif isinstance(event, RunStarted):
                    showing.cells.put(model=event.model)
                else:
                    showing.cells.answer = event.answer
                    showing.cells.put(
                        turns=event.turns, tokens=event.usage.total_tokens, cost=event.usage.cost
                    )
        state = "stopped" if self._stopped.is_set() else "answered"
        showing.cells.put(state=state, ended=showing.cells.wall(), text="a replay: nothing ran", blocks=[])
        showing.finish()
        stop = "cancelled" if self._stopped.is_set() else "answered"
        about = {"stop": stop, "message": "", "answer": showing.cells.answer, "file": None, "at": None}
        self._tell({"tell": "ended", "run": showing.cells.run, **about})

    async def _stepped(self, showing: Showing) -> None:
        showing.pass_on()
        self._next.clear()
        self._tell({"tell": "step", "run": showing.cells.run})
        await self._next.wait()

    async def _waits(self, seconds: float) -> bool:
        """Wait; gives whether it was stopped meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                return await self._stopped.wait()
        except TimeoutError:
            return False

    def _changed(self) -> None:
        if self.showing is not None:
            self.showing.changed()

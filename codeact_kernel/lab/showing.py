"""What the magic is told of one run while it goes on.

Comes in: word that something has changed. Goes out: operations for a page, at most twenty times a second; an output for
all others, less often; for a terminal the text of what is finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from codeact_kernel.lab.cell import LIVE, Cell
from codeact_kernel.lab.cells import Cells
from codeact_kernel.lab.page import bundle, cell_text, headline

STEP = 0.05
"""Seconds between two messages of operations: the server drops what comes faster than a thousand a second."""
OUTPUT = 0.5
"""Seconds between two updates of the output."""
OUTPUT_BESIDE_PAGE = 2.0
"""Seconds, where a page shows the cells: the output is then for who opens the saved file."""


class Showing:
    """Tells of one run. An `async with` as long as it goes on.

    Args:
        cells: The run.
        tell: Tells the magic something.
        page: Whether some page shows what goes on.
        cell: The id of the notebook's cell that holds the task.
        terminal: Whether text is told, and no output.
    """

    def __init__(
        self,
        cells: Cells,
        tell: Callable[[dict[str, Any]], None],
        page: Callable[[], bool],
        cell: str | None,
        *,
        terminal: bool = False,
    ) -> None:
        self.cells = cells
        self.cell = cell
        self.terminal = terminal
        self._tell = tell
        self._page = page
        self._news = asyncio.Event()
        self._shown = 0.0
        self._stale = True
        self._said = set[Cell]()
        self._task: asyncio.Task[None] | None = None

    @property
    def about(self) -> dict[str, Any]:
        """The run, as a page is told of it."""
        live = self.cells.bar["ended"] is None
        return {"run": self.cells.run, "cell": self.cell, "task": self.cells.task, "live": live}

    def changed(self) -> None:
        """Take that something has changed."""
        self._stale = True
        self._news.set()

    async def __aenter__(self) -> Self:
        self._task = asyncio.get_running_loop().create_task(self._pump())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def finish(self) -> None:
        """Tell what is left; the run has ended."""
        self.pass_on()
        if self.terminal:
            self._say(all_of_it=True)
        else:
            self._show(whole=True)

    def pass_on(self) -> None:
        """Tell the page what has changed."""
        taken = self.cells.take()
        if taken is not None:
            self._tell({"tell": "cells", "run": self.cells.run, "n": taken[0], "ops": taken[1]})

    def snapshot(self) -> dict[str, Any]:
        """All of it, for a page that comes now."""
        self.pass_on()
        n, operations = self.cells.snapshot()
        return {"n": n, "ops": operations, "about": self.about}

    async def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            every = OUTPUT_BESIDE_PAGE if self._page() else OUTPUT
            wait = self._shown + every - loop.time() if self._stale and not self.terminal else None
            try:
                async with asyncio.timeout(wait if wait is None else max(0.0, wait)):
                    await self._news.wait()
            except TimeoutError:
                self._shown = loop.time()
                self._show()
                continue
            self._news.clear()
            self.pass_on()
            if self.terminal:
                self._say()
            await asyncio.sleep(STEP)

    def _show(self, *, whole: bool = False) -> None:
        self._stale = False
        self._tell({"tell": "display", "run": self.cells.run, "data": bundle(self.cells, whole=whole)})

    def _say(self, *, all_of_it: bool = False) -> None:
        """Tell a terminal the cells that are finished, in their order."""
        cells = self.cells.all
        for at, cell in enumerate(cells):
            if cell in self._said:
                continue
            if not all_of_it and (cell.state in LIVE or (not cell.state and at + 1 == len(cells))):
                return
            self._said.add(cell)
            self._tell({"tell": "text", "run": self.cells.run, "text": cell_text(cell) + "\n"})
        if all_of_it:
            self._tell({"tell": "text", "run": self.cells.run, "text": f"[{headline(self.cells)}]\n"})

"""One client's namespace: what its calls do.

Comes in: calls. Goes out: answers. A call waits; a block does not need it: it goes on whether somebody waits or not,
and what it puts out is kept until a call takes it. So a call that is given up or cancelled by its client ends nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

from codeact_kernel.agent import SETTLE, Bookkeeping
from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.dialogue import reminder_report, shorten
from codeact_kernel.errors import KernelDied, ToolError
from codeact_kernel.events import Event, TurnStarted
from codeact_kernel.mcpserver.answer import Answer
from codeact_kernel.mcpserver.asking import Asking
from codeact_kernel.mcpserver.description import WAIT
from codeact_kernel.mcpserver.news import News
from codeact_kernel.mcpserver.saving import Saver
from codeact_kernel.mcpserver.telling import Teller
from codeact_kernel.mcpserver.waiting import Progress, Waiting
from codeact_kernel.supervisor import Supervisor
from codeact_kernel.supervisor.heartbeat import LONGEST, SLOWER
from codeact_kernel.transcript import Transcript

SOON = 1.0
"""Seconds of a wait that mere output does not end, at first."""
PATIENCE = 10.0
"""Seconds that a cancelled block may take: the supervisor's five, and what is left of its processes and threads."""
ANSWER = 5.0
"""Seconds that the kernel may take to tell what its names hold."""


class Place(Protocol):
    """What a session needs of a kernel besides running blocks in it."""

    ours: bool
    note: str
    description: str

    async def restart(self, reason: str) -> tuple[str, ...]:
        """Begin with a new process; returns the names that are gone."""

    async def revive(self) -> KernelDied | None:
        """Begin with a new process where the old one has ended; returns how it did."""

    async def variables(self) -> list[dict[str, str]]:
        """What the names hold."""


class Session:
    """What one client's calls do. Made before the supervisor, which tells it of everything.

    Args:
        place: The kernel.
        books: Keep what happens.
        count: How many tokens a text is.
        limit: Tokens of one block's output in an answer.
        saver: Writes notebooks.
        asking: Asks the client's person.
        wall: The time in seconds since the epoch.
    """

    def __init__(
        self,
        place: Place,
        books: Bookkeeping,
        count: Callable[[str], int],
        limit: int,
        saver: Saver,
        asking: Asking,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.supervisor: Supervisor
        self.asking = asking
        self._books = books
        self._transcript = Transcript()
        """All of it, for notebooks that the client wants: the record's lets go of what it has written."""
        self._place = place
        self._count = count
        self._limit = limit
        self._saver = saver
        self._wall = wall
        self._news = News()
        self._teller = Teller(self._news, place, count, limit, wall)
        self._number = 0
        self._pace = SOON
        self._waiting = Waiting(self._words)

    def emit(self, event: Event) -> None:
        """Take an event of the supervisor's or of a tool's (an `Observer`).

        Raises:
            RecordError: If what it announces must not happen, because it cannot be audited.
        """
        for kept in self._books.take(event):
            self._transcript.apply(kept)
            self._news.take(kept)
        self._waiting.stir()

    def break_off(self) -> bool:
        """End what runs: it cannot be audited any more. Gives whether there is anything."""
        for live in self.supervisor.live:
            self.supervisor.cancel(live.id, "what is done cannot be audited")
        return True

    def remind(self, text: str) -> None:
        """Let the client know something, with what it reads next.

        Args:
            text: What it shall know.
        """
        self._news.add(reminder_report(text))
        self._waiting.stir()

    # -- calls --------------------------------------------------------------------------------------------

    async def run_code(
        self,
        progress: Progress,
        code: str,
        timeout: float | None = None,
        wait: float = WAIT,
        lane: Literal["main"] | None = None,
    ) -> Answer:
        """Start a block, and wait for its end.

        Args:
            progress: Told while it waits.
            code: Python, as in a notebook's cell.
            timeout: Seconds from its first line of code; None for the setting's.
            wait: Seconds to wait. The block goes on after them.
            lane: "main" for code that has to run in the main thread.
        """
        id_ = self.start(code, timeout, lane)
        return await self.attend(progress, id_, wait)

    def start(self, code: str, timeout: float | None = None, lane: Literal["main"] | None = None) -> str:
        """Start a block; gives its id. The rest is as for `run_code`."""
        if not code.strip():
            raise ToolError("there is no code")
        if timeout is not None and timeout <= 0:
            raise ToolError("timeout is in seconds, above zero")
        if self._books.unaudited is not None:
            raise self._books.unaudited
        self._number += 1
        id_ = f"b{self._number}"
        self.emit(TurnStarted(self._number, self._wall()))
        self.supervisor.launch(Job(id_, CodeBlock(code, id_, timeout, lane=lane), self._number), self._number)
        return id_

    async def attend(self, progress: Progress, id: str, wait: float = WAIT) -> Answer:  # noqa: A002
        """Wait for the end of a block that no other call tells of meanwhile; as for `run_code`."""
        self._check([id])
        self._news.attend(id)
        try:
            await self._waiting.until(
                lambda: self._news.result(id) is not None,
                wait,
                progress,
                [id],
                asks=lambda: self.asking.is_carried(lambda about: about == id),
            )
        finally:
            self._news.leave(id)
            self.asking.look_again()
        self._pace = SOON
        return self._answer([id], advice="It runs on: wait, or cancel.")

    async def wait(self, progress: Progress, ids: list[str] | None = None, seconds: float = WAIT) -> Answer:
        """Wait until a block ends or prints.

        Mere output ends no wait of less than a second; and while the client does nothing but wait, twice as long each
        time, so that a block that prints all the time does not cost a call a second.

        Args:
            progress: Told while it waits.
            ids: Of these; None for all.
            seconds: How long.
        """
        self._check(ids or ())
        if not self.supervisor.live:
            self._told_of_death(await self._place.revive())
        loop = asyncio.get_running_loop()
        heard = loop.time() + self._pace

        def something() -> bool:
            news = self._news
            return bool(
                news.ended(ids)
                or news.is_pressing
                or not news.running(ids)
                or (loop.time() >= heard and news.spoken(ids))
            )

        await self._waiting.until(
            something, seconds, progress, ids, also=heard, asks=lambda: self.asking.is_carried(self.is_left)
        )
        if self._news.ended(ids) or self._news.spoken(ids):
            await asyncio.sleep(SETTLE)
        mere = self._news.spoken(ids) and not self._news.ended(ids)
        self._pace = min(self._pace * SLOWER, LONGEST) if mere else SOON
        told = [*self._news.ended(ids), *self._news.running(ids)] if ids is None else list(dict.fromkeys(ids))
        return self._answer(told)

    async def cancel(self, progress: Progress, id: str) -> Answer:  # noqa: A002
        """End a block, and wait for its end.

        Args:
            progress: Told while it waits.
            id: The block.
        """
        self._check([id])
        self.supervisor.cancel(id, "you cancelled it")
        await self._waiting.until(lambda: self._news.result(id) is not None, PATIENCE, progress, [id])
        self._pace = SOON
        return self._answer([id])

    async def variables(self, progress: Progress) -> Answer:
        """Tell what the names hold.

        Args:
            progress: Not needed.
        """
        del progress
        self._told_of_death(await self._place.revive())
        if not self._place.ours:
            raise ToolError(f"what its names hold cannot be told of this kernel: {self._place.note}")
        try:
            async with asyncio.timeout(ANSWER):
                variables = await self._place.variables()
        except TimeoutError:
            raise ToolError("the kernel does not answer; a block holds it") from None
        width = max((len(variable["name"]) for variable in variables), default=0)
        lines = [_row(variable, width) for variable in variables] or ["There are no names yet."]
        text = shorten(self._books.mask.text("\n".join(lines)), self._limit, self._count, "print(dir())")
        return self._answer([], [text])

    async def restart(self, progress: Progress) -> Answer:
        """Begin with a new process.

        Args:
            progress: Told while it waits for the ends of blocks.
        """
        before = self._news.running([live.id for live in self.supervisor.live])
        gone = await self._place.restart("was restarted, because you asked for it")
        await self._waiting.until(lambda: not self._news.running(before), PATIENCE, progress, before)
        self._pace = SOON
        names = KernelDied("", lost=gone).loss
        return self._answer([], [f"A fresh kernel: {self._place.description}.{names}"])

    async def save_notebook(self, progress: Progress, path: str) -> Answer:
        """Write all blocks and their outputs as a notebook.

        Args:
            progress: Not needed.
            path: Where, in the workspace.
        """
        del progress
        where = await self._saver.save(self._transcript, path)
        return self._answer([], [f"Written: {where}, {self._number} blocks."])

    def is_left(self, id: str | None) -> bool:  # noqa: A002
        """Whether no call attends to a block: what is asked about it goes out with a `wait`."""
        return not self._news.is_attended(id)

    # -- what calls have in common -----------------------------------------------------------------------

    def _answer(self, ids: Sequence[str], lines: Iterable[str] = (), advice: str = "") -> Answer:
        return self._teller.answer(ids, self.supervisor.live, lines, advice)

    def _check(self, ids: Iterable[str]) -> None:
        known = self._news.known
        for id_ in ids:
            if id_ not in known:
                running = ", ".join(self._news.running()) or "none"
                raise ToolError(f"there is no block {id_!r}; running: {running}")

    def _told_of_death(self, died: KernelDied | None) -> None:
        if died is not None:
            self.remind(f"This is a fresh kernel, because {died.message}.{died.loss}")

    def _words(self, ids: Iterable[str] | None) -> str:
        """What a person may see while the client waits."""
        wanted = self._news.running(ids)
        return " · ".join(
            f"{live.id}: {live.last_line}".removesuffix(": ")
            for live in self.supervisor.live
            if live.id in wanted
        )


def _row(variable: dict[str, str], width: int) -> str:
    size = f" ({variable['size']})" if variable["size"] else ""
    return f"{variable['name']:<{width}}  {variable['type']}{size}  {variable['value']}".rstrip()

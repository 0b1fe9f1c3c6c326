"""What the user sees and is asked while a run goes on.

Comes in: events, questions. Goes out: a picture on stderr where that is a terminal, and the user's words.
`Screen` itself is what there is without a terminal: next to silence, and nobody to ask.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from codeact_kernel.approval import Answer, Request, changed_answer, text_of, with_text
from codeact_kernel.cli.stdin import StdinLines
from codeact_kernel.cli.streams import clean, complain, is_terminal
from codeact_kernel.controls import visible
from codeact_kernel.errors import ToolError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codeact_kernel.agent import Agent, Run
    from codeact_kernel.events import Event

REFRESH = 0.2
"""Seconds between two pictures: often enough for a clock with tenths, seldom enough to be calm."""


class Screen:
    """Next to silence: one line about the sandbox, and nobody can be asked. An `async with`."""

    can_ask = False
    """Whether somebody is there who can be asked."""
    _walls = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def watch(self, agent: Agent) -> None:
        """Show what this agent has alive."""

    def __call__(self, event: Event) -> None:
        """Show an event. An `Observer`. What blocks are walled in by is said in any case, once; notices are, too."""
        from codeact_kernel.events import Notice, RunResumed, RunStarted

        if isinstance(event, RunStarted | RunResumed) and event.about_sandbox not in ("", self._walls):
            self._walls = event.about_sandbox
            complain(clean(event.about_sandbox))
        elif isinstance(event, Notice):
            complain(clean(event.text))

    def show(self, *what: RenderableType) -> None:
        """Show something that stays."""

    def tell(self, text: str) -> None:
        """Tell the user something that was asked for.

        Args:
            text: Lines; an empty text is nothing.
        """
        if text:
            print(clean(text), file=sys.stderr, flush=True)

    def ended(self, run: Run) -> None:
        """Say what a run came to, where its answer does not say it."""
        if run.message:
            more = f"; the record is {run.record}" if run.record and run.stop != "limit" else ""
            complain(run.message + more)

    def failed(self, record: Path | None) -> None:
        """Say where the record is of a run of which somebody else says why it failed."""

    async def aside(self, write: Callable[[], None]) -> None:
        """Let somebody else write to the terminal.

        Args:
            write: Writes whole lines.
        """
        write()

    async def decide(self, question: str) -> str | None:
        """Ask the user what shall be done now. What the model asks meanwhile, or has asked, gets no answer.

        Args:
            question: In words.

        Returns:
            A line, or None where there is no answer.
        """
        del question
        return None

    async def person(self, question: str) -> str:
        """Ask the user what the model wants to know; what `Agent` takes as its person.

        Args:
            question: The model's words.

        Raises:
            ToolError: If there is no answer.
        """
        del question
        raise _unanswered()

    async def approve(self, request: Request) -> Answer:
        """Ask the user whether something may happen; what `Agent` takes as its approver.

        Args:
            request: What wants to happen.
        """
        del request
        return Answer(False, "nobody is here to be asked")

    def refuse(self) -> bool:
        """Say no to what is asked to be approved.

        Returns:
            Whether something was.
        """
        return False


class TerminalScreen(Screen):
    """What all terminals have in common: a run is told in lines that stay, and one question is open at a time.

    Args:
        protocol: How the model writes blocks.
    """

    def __init__(self, protocol: str = "tags") -> None:
        from codeact_kernel.cli.console import TerminalConsole
        from codeact_kernel.cli.progress import Progress

        self.can_ask = somebody_is_there()
        self.console = TerminalConsole(file=sys.stderr, highlight=False, markup=False, emoji=False)
        self.progress = Progress(self.show, protocol)
        self.question: asyncio.Future[str | None] | None = None
        """The question that is open."""
        self._one = asyncio.Lock()
        self._deciding = False
        self._approving = False
        """Whether the question that is open asks for approval."""
        self._record: Path | None = None

    def watch(self, agent: Agent) -> None:
        """Show what this agent has alive."""
        self.progress.agent = agent

    def __call__(self, event: Event) -> None:
        """Show an event."""
        self.progress(event)

    def tell(self, text: str) -> None:
        """Tell the user something."""
        from rich.text import Text

        if text:
            self.show(Text(clean(text), style="cyan"))

    def ended(self, run: Run) -> None:
        """Say what a run came to and what it took."""
        from codeact_kernel.cli.told import told_end

        self.show(*told_end(run))
        self.failed(run.record)

    def failed(self, record: Path | None) -> None:
        """Say where the record is, once."""
        from codeact_kernel.cli.told import told_record

        if record is not None and record != self._record:
            self._record = record
            self.show(told_record(record))

    async def decide(self, question: str) -> str | None:
        """Ask the user what shall be done now; takes back what the model asks."""
        self._deciding = True
        self.answer(None)
        try:
            async with self._one:
                return await self._ask(self._text(question, "bold"))
        finally:
            self._deciding = False

    async def person(self, question: str) -> str:
        """Ask the user what the model wants to know, one question at a time."""
        if self._deciding:
            raise _unanswered()
        async with self._one:
            answer = None if self._deciding else await self._ask(self._text(question, "bold"))
        if answer is None:
            raise _unanswered()
        return answer

    async def approve(self, request: Request) -> Answer:
        """Ask the user whether something may happen, until the answer is one."""
        from codeact_kernel.cli import asked

        async with self._one:
            now, whole, hint = request, False, ""
            while not self._deciding:
                shown = [*asked.told_request(now, whole=whole), asked.told_keys(now)]
                if hint:
                    shown = [self._text(hint, "red")]
                self._approving = True
                try:
                    said = asked.read_line(await self._ask(*shown), now)
                finally:
                    self._approving = False
                whole, hint = said.shows, ""
                if said.answer is not None:
                    return changed_answer(said.answer, request, now)
                if said.edits:
                    now, hint = await self._edited(now)
                elif not said.shows:
                    hint = asked.KEYS
        return Answer(False, "the person is deciding what shall be done")

    def refuse(self) -> bool:
        """Say no to what is asked to be approved."""
        if self._approving:
            self.answer(None)
        return self._approving

    async def _edited(self, request: Request) -> tuple[Request, str]:
        """Let the user edit what is asked; gives what it is by then, and what went wrong."""
        from codeact_kernel.cli import asked

        try:
            before, ending = text_of(request)
            text = await self._in_editor(lambda: asked.edit(before, ending))
            return (request, "") if text == before else (with_text(request, text), "")
        except ValueError as error:
            return request, f"It is as it was: {error}"

    async def _in_editor(self, edit: Callable[[], str]) -> str:
        """Call what hands the terminal to an editor."""
        return await asyncio.to_thread(edit)

    def _text(self, text: str, style: str) -> RenderableType:
        from rich.text import Text

        return Text(visible(text).expandtabs(4), style=style)

    def answer(self, line: str | None) -> None:
        """Give the open question its answer.

        Args:
            line: What the user has typed; None for no answer.
        """
        if self.question is not None and not self.question.done():
            self.question.set_result(line)

    def picture(self, room: int) -> RenderableType:
        """What changes.

        Args:
            room: Lines of the terminal to leave free.
        """
        return self.progress.changing(self.console, self.console.height - room)

    async def _ask(self, *what: RenderableType) -> str | None:
        self._make_place()
        self.show(*what)
        self.question = asyncio.get_running_loop().create_future()
        try:
            self._open_question()
            return await self.question
        finally:
            self.question = None
            self._close_question()

    def _make_place(self) -> None:
        """A question is about to be shown."""

    def _open_question(self) -> None:
        """The question is shown: let the user type."""

    def _close_question(self) -> None:
        """The question is answered, or taken back."""


class LiveScreen(TerminalScreen):
    """A terminal on which a few lines at the bottom say what is going on; they make place for a question.

    Args:
        protocol: How the model writes blocks.
    """

    def __init__(self, protocol: str = "tags") -> None:
        from rich.live import Live

        super().__init__(protocol)
        self._live = Live(
            console=self.console,
            auto_refresh=False,
            transient=True,
            get_renderable=lambda: self.picture(2),
        )
        self._lines = StdinLines()
        self._reading: asyncio.Task[None] | None = None
        self._later: list[RenderableType] = []
        self._tick: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self._resume()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pause()

    def show(self, *what: RenderableType) -> None:
        """Show something that stays, above what changes; with a question open, below its answer."""
        from rich.console import Group

        if self.question is not None:
            self._later.extend(what)
        elif what:
            self.console.print(Group(*what))  # bare texts would be joined, and lose how they want to be cut

    async def aside(self, write: Callable[[], None]) -> None:
        """Let somebody else write to the terminal, with nothing below it that changes."""
        self._pause()
        try:
            write()
        finally:
            self._resume()

    async def _in_editor(self, edit: Callable[[], str]) -> str:
        self._pause()
        try:
            return await asyncio.to_thread(edit)
        finally:
            self._resume()

    def _make_place(self) -> None:
        self._pause()
        self._lines.drop()

    def _open_question(self) -> None:
        self.console.print("> ", end="")
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        self.answer(await self._lines.read())

    def _close_question(self) -> None:
        assert self._reading is not None
        self._reading.cancel()
        later, self._later = self._later, []
        self.show(*later)
        self._resume()

    def _resume(self) -> None:
        if self.console.is_interactive:
            self._live.start()
            self._refresh()

    def _pause(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        self._live.stop()

    def _refresh(self) -> None:
        self._live.refresh()
        self._tick = asyncio.get_running_loop().call_later(REFRESH, self._refresh)


def _unanswered() -> ToolError:
    return ToolError("the person did not answer")


def somebody_is_there() -> bool:
    """Whether there is a person who sees what is asked, and can answer."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def open_screen(protocol: str = "tags", *, quiet: bool = False) -> Screen:
    """Choose what the user sees of a run.

    Args:
        protocol: How the model writes blocks.
        quiet: Whether nothing shall be shown though there is a terminal.
    """
    return LiveScreen(protocol) if is_terminal(sys.stderr) and not quiet else Screen()

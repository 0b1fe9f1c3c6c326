"""A terminal with a line to type on, which stays below everything while a conversation goes on.

Comes in: what is shown, and keys. Goes out: the lines that the user has typed. A line is the answer to the
question that is open, if one is; else it is for whoever reads lines.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import create_output
from rich.console import Group

from codeact_kernel.cli.screens import REFRESH, TerminalScreen

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROOM = 3
"""Lines of the terminal that are left for what is typed."""


class PromptScreen(TerminalScreen):
    """A terminal with a line to type on.

    Args:
        interrupted: What Ctrl-C does; a terminal in this state sends it as a key, not as a signal.
        protocol: How the model writes blocks.
    """

    def __init__(self, interrupted: Callable[[], object], protocol: str = "tags") -> None:
        super().__init__(protocol)
        keys = KeyBindings()
        keys.add("c-c")(lambda event: interrupted())
        self._session: PromptSession[str] = PromptSession(
            self._message,
            key_bindings=keys,
            erase_when_done=True,
            reserve_space_for_menu=0,
            refresh_interval=REFRESH,
            output=create_output(stdout=sys.stderr),
        )
        self._waiting: list[str] = []
        self._writing: asyncio.Task[None] | None = None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._written()

    async def line(self) -> str | None:
        """Wait for a line that answers no question.

        Returns:
            The line, or None after Ctrl-D.
        """
        while True:
            try:
                typed = await self._session.prompt_async(handle_sigint=False, set_exception_handler=False)
            except EOFError:
                typed = None
            if self.question is None:
                return typed
            self.answer(typed)

    def show(self, *what: RenderableType) -> None:
        """Show something that stays, above the line on which the user types."""
        if what:
            self._waiting.append(self._drawn(*what))
            if self._writing is None or self._writing.done():
                self._writing = asyncio.get_running_loop().create_task(self._write())

    async def aside(self, write: Callable[[], None]) -> None:
        """Let somebody else write to the terminal, above the line on which the user types."""
        await self._written()
        await run_in_terminal(write)

    async def _written(self) -> None:
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        while self._waiting:
            text, self._waiting = "".join(self._waiting), []
            await run_in_terminal(lambda: self._put(text))  # noqa: B023 - awaited at once

    def _put(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def _message(self) -> Any:
        return ANSI(self._drawn(self.picture(_ROOM)) + ("> " if self.question is None else "answer> "))

    def _drawn(self, *what: RenderableType) -> str:
        with self.console.capture() as capture:
            self.console.print(Group(*what))
        return capture.get()

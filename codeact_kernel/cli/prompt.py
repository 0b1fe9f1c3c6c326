"""A terminal with a line to type on, which stays below everything while a conversation goes on.

Comes in: what is shown, and keys. Goes out: the lines that the user has typed. A line is the answer to the
question that is open, if one is; else it is for whoever reads lines.
"""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from prompt_toolkit import PromptSession
from prompt_toolkit.application.current import set_app
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import create_output
from rich.console import Group
from rich.text import Text

from codeact_kernel.cli.screens import REFRESH, TerminalScreen
from codeact_kernel.cli.streams import clean

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
        self._typed: asyncio.Queue[str | None] = asyncio.Queue()
        self._stderr = sys.stderr
        self._printing = ExitStack()

    async def __aenter__(self) -> Self:
        self._reading = asyncio.get_running_loop().create_task(self._read(), name="what is typed")
        printed = Printed(lambda text: self.show(Text(clean(text))))
        self._printing.enter_context(redirect_stdout(printed))
        self._printing.enter_context(redirect_stderr(printed))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._printing.close()
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading

    async def line(self) -> str | None:
        """Wait for a line that answers no question.

        Returns:
            The line, or None after Ctrl-D.
        """
        return await self._typed.get()

    async def _read(self) -> None:
        """Read lines from the start, also before anybody wants them: the terminal would echo them itself."""
        try:
            while True:
                line = await self._session.prompt_async(handle_sigint=False, set_exception_handler=False)
                if self.question is None:
                    self._typed.put_nowait(line)
                else:
                    self.answer(line)
        except EOFError:
            self.answer(None)
        finally:
            self._typed.put_nowait(None)

    def show(self, *what: RenderableType) -> None:
        """Show something that stays, above the line on which the user types."""
        if what:
            text = self._drawn(*what)
            self._above(lambda: self._put(text))

    async def _in_editor(self, edit: Callable[[], str]) -> str:
        from prompt_toolkit.application import in_terminal

        if not self._session.app.is_running:
            return await asyncio.to_thread(edit)
        with set_app(self._session.app):
            async with in_terminal():
                return await asyncio.to_thread(edit)

    async def aside(self, write: Callable[[], None]) -> None:
        """Let somebody else write to the terminal, above the line on which the user types."""
        self._above(write)

    def _above(self, write: Callable[[], None]) -> None:
        """Take the line away, write, and let it be drawn again.

        `run_in_terminal` would leave raw mode meanwhile, and lose keys: a Ctrl-D, for one.
        """
        app = self._session.app
        if app.is_running:
            app.renderer.erase()
        write()
        app.invalidate()

    def _put(self, text: str) -> None:
        self._stderr.write(text)
        self._stderr.flush()

    def _message(self) -> Any:
        return ANSI(self._drawn(self.picture(_ROOM)) + ("> " if self.question is None else "answer> "))

    def _drawn(self, *what: RenderableType) -> str:
        with self.console.capture() as capture:
            self.console.print(Group(*what))
        return capture.get()


class Printed(io.TextIOBase):
    """A stream for what tools print, in any thread: it would be written over the line on which the user types.

    Args:
        show: Gets whole lines, in the loop's thread.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._rest = ""

    def write(self, text: str) -> int:
        """Take text, and show the lines that are whole."""
        lines, end, self._rest = (self._rest + text).rpartition("\n")
        if end:
            self._loop.call_soon_threadsafe(self._show, lines)
        return len(text)

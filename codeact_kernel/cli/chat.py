"""`codeact chat`: a conversation, in one kernel and one record.

Comes in: lines. Goes out: answers on stdout. At a terminal the user may type at any time: what is typed while
the model works is a note that it reads before its next reply. From a pipe each line is a message of its own,
taken when the one before it is answered.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from codeact_kernel.blocks import format_duration
from codeact_kernel.cli.choices import Choices, choosing
from codeact_kernel.errors import CodeactError

if TYPE_CHECKING:
    from codeact_kernel.agent import Agent
    from codeact_kernel.cli.conduct import Conductor
    from codeact_kernel.cli.loop import Signals
    from codeact_kernel.cli.prompt import PromptScreen
    from codeact_kernel.cli.streams import Answers
    from codeact_kernel.supervisor import LiveBlock

TWICE = 2.0
"""Seconds within which a second Ctrl-C at an idle prompt leaves."""
_COMMAND = re.compile(r"\s*/([a-z]+)(\s.*|)")
HELP = """\
What you type is a message; while the model works, it is a note that it reads before its next reply.
/blocks      what is running
/cancel ID   end a block
/stop        end the run; the conversation goes on
/quit        leave (Ctrl-D, too)
Ctrl-C       cancel the blocks that run, and decide what then; twice: as /stop"""


@choosing()
def chat(
    *,
    chosen: Choices,
) -> int:
    """Talk with a model that works by writing Python.

    All messages share one kernel, one context and one record. What you type while it works is a note that it
    reads before its next reply; /help tells what else there is. Each line of a pipe is a message.
    """
    from codeact_kernel.cli.loop import in_loop
    from codeact_kernel.cli.screens import somebody_is_there
    from codeact_kernel.cli.streams import answers

    with answers() as out:
        fields = chosen.agent_fields()
        protocol = chosen.protocol or fields["settings"].protocol
        talk = typed if somebody_is_there() else piped
        return in_loop(lambda signals: talk(fields, signals, out, protocol))


async def piped(fields: Mapping[str, Any], signals: Signals, out: Answers, protocol: str) -> int:
    """Hold a conversation with nobody at the other end: a line, its answer, the next line.

    Args:
        fields: What the agent shall be.
        signals: Where Ctrl-C arrives.
        out: Where answers go.
        protocol: How the model writes blocks.

    Returns:
        The exit code: that of the first message which was not answered.
    """
    from codeact_kernel.cli.conduct import working
    from codeact_kernel.cli.screens import open_screen
    from codeact_kernel.cli.stdin import StdinLines

    lines, screen = StdinLines(), open_screen(protocol)
    async with working(fields, screen, signals, out) as conductor:
        while (line := await lines.read()) is not None and not is_quit(line):
            if (said := obey(line, conductor.agent)) is not None:
                screen.tell(said)
            elif line.strip() and (code := await conductor.work(line)):
                return code
    return 0


async def typed(fields: Mapping[str, Any], signals: Signals, out: Answers, protocol: str) -> int:
    """Hold a conversation with a person at a terminal, who may type at any time.

    Args:
        fields: What the agent shall be.
        signals: Where Ctrl-C arrives.
        out: Where answers go.
        protocol: How the model writes blocks.

    Returns:
        The exit code.
    """
    from codeact_kernel.cli.conduct import working
    from codeact_kernel.cli.prompt import PromptScreen

    screen = PromptScreen(lambda: signals.on_interrupt(), protocol)
    async with working(fields, screen, signals, out) as conductor:
        screen.tell("Type a message; /help tells what else there is.")
        async with Conversation(conductor, screen, signals) as conversation:
            while (line := await screen.line()) is not None and not is_quit(line):
                conversation.take(line)
    return 0


class Conversation:
    """What becomes of the lines that a person types. An `async with`; leaving it stops the run that goes on.

    Args:
        conductor: Lets the agent work.
        screen: Where the person types.
        signals: Where Ctrl-C arrives.
    """

    def __init__(self, conductor: Conductor, screen: PromptScreen, signals: Signals) -> None:
        self._conductor = conductor
        self._screen = screen
        self._signals = signals
        self._group = asyncio.TaskGroup()
        self._run: asyncio.Task[None] | None = None
        self._leave = signals.on_interrupt
        self._pressed = float("-inf")

    async def __aenter__(self) -> Self:
        self._signals.on_interrupt = self._idle
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._conductor.agent.stop()
        await self._group.__aexit__(kind, error, trace)

    def take(self, line: str) -> None:
        """Take a line: a command, a note to the model that works, or the next message.

        Args:
            line: What was typed.
        """
        agent = self._conductor.agent
        if (said := obey(line, agent)) is not None:
            self._screen.tell(said)
        elif not line.strip():
            return
        elif self._run is not None and not self._run.done():
            agent.steer(line)
        else:
            self._screen.tell(f"> {line}")
            self._run = self._group.create_task(self._work(line))

    async def _work(self, line: str) -> None:
        try:
            await self._conductor.work(line)
        except CodeactError as error:
            self._screen.tell(f"codeact: {error.message}")

    def _idle(self) -> None:
        """Take a Ctrl-C while nothing is going on."""
        now = asyncio.get_running_loop().time()
        if now - self._pressed < TWICE:
            self._leave()
        self._pressed = now
        self._screen.tell("Ctrl-C once more leaves, and so does /quit.")


def is_quit(line: str) -> bool:
    """Whether a line ends the conversation."""
    return line.strip() == "/quit"


def obey(line: str, agent: Agent) -> str | None:
    """Do what a line that begins with a slash says.

    Args:
        line: The line.
        agent: The agent that it is about.

    Returns:
        What to tell the user; None where the line is no command.
    """
    command = _COMMAND.fullmatch(line)
    if command is None:
        return None
    match command[1], command[2].split():
        case "help", []:
            return HELP
        case "blocks", []:
            return "\n".join(map(_told, agent.live)) or "No block is running."
        case "cancel", [name]:
            return f"Cancelling {name}." if agent.cancel(name) else f"There is no running block {name!r}."
        case "cancel", _:
            return "Say which block: /cancel ID (/blocks lists them)."
        case "stop", []:
            agent.stop()
            return ""
    return f"There is no command {line.strip()}; /help tells what there is."


def _told(block: LiveBlock) -> str:
    if block.started is None:
        return f"{block.id}  {'waits for approval' if block.state == 'waiting for approval' else 'waits'}"
    return f"{block.id}  {format_duration(time.time() - block.started)}  {block.last_line}".rstrip()

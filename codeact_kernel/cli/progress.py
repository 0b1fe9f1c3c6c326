"""A run as a person sees it at a terminal.

Comes in: the events of a run, and what its agent has alive. Goes out: lines that stay (the code of blocks, what
came of them, prose) and the few that change (what is running, what the model is writing). It knows no terminal:
whoever has one shows both.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.text import Text

from codeact_kernel.blocks import Part, Prose, format_duration
from codeact_kernel.cli.streams import clean
from codeact_kernel.cli.told import TAIL, told_block, told_live, told_result, told_wake_up
from codeact_kernel.dialogue import codec
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockQueued,
    Event,
    GoalChecked,
    GoalMet,
    Knowledge,
    ModelRetry,
    NoteReceived,
    Notice,
    Reply,
    ReplyDelta,
    RunEnded,
    RunResumed,
    RunStarted,
    ToolCalled,
    TurnStarted,
    WakeUpEnded,
)

if TYPE_CHECKING:
    from codeact_kernel.agent import Agent

PROSE_LINES = 6
"""Lines of a reply that are shown while it is written, the last ones."""
_WIDEST = 100
"""Columns that prose takes: longer lines are hard to read."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Progress:
    """An `Observer` that tells a run.

    Args:
        show: Takes what stays.
        protocol: How the model writes blocks.
        wall: The time in seconds since the epoch.
    """

    def __init__(
        self,
        show: Callable[[RenderableType], None],
        protocol: str = "tags",
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.agent: Agent | None = None
        """Whose blocks are shown while they run."""
        self._show = show
        self._codec = codec(protocol)
        self._wall = wall
        self._reader = self._codec.reader(lambda code: False)
        self._parts: deque[Part] = deque()
        self._asked: float | None = None
        self._written = 0
        self._turn = 0
        self._who = ""
        self._walls = ""
        self._calls: Counter[str | None] = Counter()

    def __call__(self, event: Event) -> None:
        """Tell an event."""
        match event:
            case RunStarted() | RunResumed():
                self._tell_who(" · ".join(filter(None, (event.model, event.kernel))))
                self._tell_sandbox(event)
            case TurnStarted():
                self._tell_prose()
                self._reader = self._codec.reader(lambda code: False)
                self._asked, self._written, self._turn = event.at, 0, event.turn
            case ReplyDelta():
                self._written += len(event.text)
                self._parts += [p for p in self._reader.feed(event.text) if isinstance(p, Part)]
            case ModelRetry():
                wait = format_duration(event.wait)
                self._show(Text(f"{clean(event.reason)}; again in {wait}", style="yellow"))
            case Notice():
                self._show(Text(clean(event.text), style="yellow"))
            case Appended(entry=Reply() as reply):
                self._asked = None
                if not all(isinstance(part, Prose) for part in reply.parts):
                    self._tell_prose()
                for fault in reply.faults:
                    self._show(Text(f"! {clean(fault.message)}", style="yellow"))
            case Appended(entry=Knowledge()):
                self._show(Text("The context was compacted.", style="dim"))
            case BlockQueued():
                self._tell_prose(up_to_block=True)
                self._show(told_block(event.id, event.block))
            case ToolCalled():
                self._calls[event.block_id] += 1
            case BlockFinished():
                self._show(told_result(event.result, self._calls.pop(event.result.id, 0)))
            case GoalChecked() if event.code != 0:
                said = f"The goal is not met: {clean(event.command)} ended with {event.code}."
                self._show(Text(said, style="yellow"))
            case GoalMet():
                self._show(Text(f"The goal is met: {clean(event.evidence)}", style="green"))
            case WakeUpEnded(came=True):
                self._show(Text(f"It is time: {clean(event.id)}", style="dim"))
            case NoteReceived():
                self._show(Text(f"{clean(event.sender)}: {clean(event.text)}", style="cyan"))
            case RunEnded():
                self._ended(event)
            case _:
                pass

    def changing(self, console: Console, height: int) -> RenderableType:
        """What is going on, in lines that are shown until it is over.

        Args:
            console: Where they are shown.
            height: Lines that it may take.
        """
        now = self._wall()
        mark = SPINNER[int(now * 5) % len(SPINNER)]
        if self.agent is None:
            return Text(f"{mark} starting a kernel", style="dim")
        lines = [told_live(block, mark, now) for block in self.agent.live]
        if self._asked is not None:
            lines.append(self._asking(mark, now))
        lines = lines or [told_wake_up(wake_up, now) for wake_up in self.agent.wake_ups[:1]]
        room = max(1, height)
        if len(lines) > room:
            more = len(lines) - room + 1
            lines = [*lines[: room - 1], Text(f"  … {more} more", style="dim")]
        return Group(*self._pending(console, min(PROSE_LINES, room - len(lines))), *lines)

    def _tell_who(self, who: str) -> None:
        """Say once which model and which kernel it is: a conversation has many runs."""
        if who != self._who:
            self._who = who
            self._show(Text(clean(who), style="dim"))

    def _tell_sandbox(self, event: RunStarted | RunResumed) -> None:
        """Say once what blocks are walled in by, and what that leaves open."""
        if event.about_sandbox not in ("", self._walls):
            self._walls = event.about_sandbox
            self._show(
                Text(clean(event.about_sandbox), style="bold red" if event.sandbox == "none" else "dim")
            )

    def _asking(self, mark: str, now: float) -> Text:
        waited = format_duration(now - (self._asked or now))
        what = f"writes, {self._written:,} characters" if self._written else "thinks"
        return Text(f"{mark} turn {self._turn}: the model {what}, {waited}", style="dim")

    def _pending(self, console: Console, room: int) -> Sequence[Text]:
        """The last lines of the prose that has not been told yet: it may be the answer."""
        prose = "".join(part.text for part in self._parts if isinstance(part, Prose))
        if room <= 0 or not prose.strip():
            return ()
        text = Text(clean(prose[-TAIL:]).strip(), style="dim")
        return text.wrap(console, min(console.width, _WIDEST))[-room:]

    def _tell_prose(self, up_to_block: bool = False) -> None:
        prose = ""
        while self._parts:
            part = self._parts.popleft()
            if isinstance(part, Prose):
                prose += part.text
            elif up_to_block:
                break
        if prose.strip():
            self._show(Text())
            self._show(Constrain(Text(clean(prose).strip(), style="dim"), _WIDEST))

    def _ended(self, event: RunEnded) -> None:
        self._asked = None
        if event.stop != "answered":
            self._tell_prose()
        self._parts.clear()
        self._calls.clear()

"""Ctrl-C while a run goes on: once it stops the blocks and asks, twice it stops the run.

Comes in: the agent, and somebody who can be asked. Goes out: what the user meant. Where nobody can be asked,
the first one stops the run. While somebody is asked to approve something, the first one is a no to that.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from codeact_kernel.cli.loop import Signals
from codeact_kernel.cli.screens import Screen

if TYPE_CHECKING:
    from codeact_kernel.agent import Agent

TWICE = 2.0
"""Seconds within which a second Ctrl-C belongs to the first."""
GO_ON = ("", "c", "continue")
STOP = ("s", "stop")
CHOICES = "Enter goes on, s stops (so does Ctrl-C), anything else is a note to the model."


class Interrupts(AbstractAsyncContextManager["Interrupts"]):
    """Says what signals mean while a run goes on. An `async with` round the run.

    Args:
        agent: Whose run it is.
        signals: Where signals arrive.
        screen: Where the user is asked.
    """

    def __init__(self, agent: Agent, signals: Signals, screen: Screen) -> None:
        self._agent = agent
        self._signals = signals
        self._screen = screen
        self._last = float("-inf")
        self._question: asyncio.Task[None] | None = None
        self._stopped = False

    async def __aenter__(self) -> Interrupts:
        self._before = self._signals.on_interrupt, self._signals.on_end
        self._signals.on_interrupt, self._signals.on_end = self.pressed, self.stop
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.rest()
        self._signals.on_interrupt, self._signals.on_end = self._before

    async def rest(self) -> None:
        """The run has ended: ask nothing more, and let nothing break off what is still to be shown."""
        self._signals.rest()
        if self._question is not None:
            self._question.cancel()
            await asyncio.gather(self._question, return_exceptions=True)

    def pressed(self) -> None:
        """Take a Ctrl-C."""
        now = asyncio.get_running_loop().time()
        asked = self._question is not None and not self._question.done()
        if asked or now - self._last < TWICE or not self._screen.can_ask:
            self.stop()
            return
        self._last = now
        if self._screen.refuse():
            return
        self._question = asyncio.get_running_loop().create_task(self._ask(), name="what the user wants")

    def stop(self) -> None:
        """End the run."""
        if not self._stopped:
            self._stopped = True
            self._agent.stop()

    async def _ask(self) -> None:
        """Let the run wait while the user thinks, and do what the user says."""
        self._agent.hold()
        try:
            count = self._agent.cancel_blocks()
            what = f"Cancelled {count} block{'s'[: count > 1]}." if count else "No block is running."
            answer = await self._screen.decide(f"{what} {CHOICES}")
            said = None if answer is None else answer.strip()
            if said is None or said.lower() in STOP:
                self.stop()
                return
            if said.lower() not in GO_ON:
                self._agent.steer(said)
            await self._agent.settled()  # so that a note and what came of the blocks are read together
        finally:
            self._agent.release()

"""An agent at work for the command line.

Comes in: what the agent shall be, the screen, the signals, tasks. Goes out: answers, and for each task the exit
code that it comes to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from codeact_kernel.agent import Agent
from codeact_kernel.cli.interrupts import Interrupts
from codeact_kernel.cli.loop import Signals
from codeact_kernel.cli.screens import Screen
from codeact_kernel.cli.streams import Answers, complain
from codeact_kernel.errors import CodeactError

_EXIT_CODES = {"answered": 0, "limit": 3, "failed": 1}
"""By why a run has ended; "cancelled" has the code of what it was cancelled by."""


class Conductor:
    """Lets an agent work.

    Args:
        agent: The agent, alive.
        screen: What the user sees.
        signals: Where Ctrl-C arrives.
        out: Where answers go.
        events: Whether events are written there instead of answers.
    """

    def __init__(self, agent: Agent, screen: Screen, signals: Signals, out: Answers, events: bool) -> None:
        self.agent = agent
        self._screen = screen
        self._signals = signals
        self._out = out
        self._events = events

    async def work(self, task: str | None, **how: Any) -> int:
        """Work on one task, and give the answer.

        Args:
            task: The task; None goes on with the run that was resumed.
            **how: What `Agent.run` takes besides.

        Returns:
            The exit code that it comes to.

        Raises:
            CodeactError: What `Agent.run` raises, or if stdout takes no more.
        """
        try:
            async with Interrupts(self.agent, self._signals, self._screen) as interrupts:
                agent = self.agent
                run = await (agent.go_on() if task is None else agent.run(task, **how))
                await interrupts.rest()
                self._out.check()
                answer = run.answer
                if answer is not None and not self._events:
                    await self._screen.aside(lambda: self._out.write(answer))
        except CodeactError:
            self._screen.failed(self.agent.record)
            raise
        self._screen.ended(run)
        return _EXIT_CODES.get(run.stop, self._signals.code)


@asynccontextmanager
async def working(
    fields: Mapping[str, Any],
    screen: Screen,
    signals: Signals,
    out: Answers,
    *,
    events: bool = False,
    make: Callable[..., Agent] = Agent,
) -> AsyncIterator[Conductor]:
    """Start an agent; leaving ends it.

    Args:
        fields: What the agent shall be.
        screen: What the user sees.
        signals: Where Ctrl-C arrives.
        out: Where answers go.
        events: Whether events are written there instead of answers.
        make: Makes the agent of these and its fields.

    Raises:
        CodeactError: If it cannot be started.
    """
    person = screen.person if screen.can_ask else None
    approver = screen.approve if screen.can_ask else None
    tracing = fields.get("observers", ())
    observers = [*tracing, out.event if events else screen]
    agent = make(**{**fields, "person": person, "approver": approver, "observers": observers})
    out.on_failure = agent.stop
    try:
        async with screen, agent:
            screen.watch(agent)
            try:
                yield Conductor(agent, screen, signals, out, events)
            finally:
                signals.rest()
    finally:
        for observer in tracing:
            await asyncio.to_thread(observer.close)
        if agent.record_error is not None:
            complain(agent.record_error.message)

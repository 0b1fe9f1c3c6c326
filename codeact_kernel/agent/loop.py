"""The loop: ask, launch, wait, tell; until the model answers.

Comes in: a task, and what lands in the inbox. Goes out: events, and how the run ended. This is the whole of
it: a reply's blocks run while it streams; then the loop sleeps until something lands; all that has landed is
one message; a reply without blocks while something runs means wait, and with nothing running it is the answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from codeact_kernel.agent.answer import TRIES, AnswerType
from codeact_kernel.agent.asker import Asker
from codeact_kernel.agent.compacting import Compactor
from codeact_kernel.agent.context import Context
from codeact_kernel.agent.goal import Goal
from codeact_kernel.agent.hooks import HookChain
from codeact_kernel.agent.inbox import Inbox, Note
from codeact_kernel.agent.reporting import Reporter
from codeact_kernel.agent.standstill import Standstill
from codeact_kernel.agent.wakeups import WakeUps
from codeact_kernel.blocks import Prose
from codeact_kernel.dialogue import fault_report, observation, reminder_report
from codeact_kernel.errors import ContextOverflow, LimitReached, ModelRefused
from codeact_kernel.events import (
    Appended,
    Entry,
    Event,
    Heartbeat,
    Observation,
    Reply,
    Report,
    Task,
    TurnStarted,
)
from codeact_kernel.policy import Budget
from codeact_kernel.supervisor import Supervisor

EMPTY_REPLIES = 3
"""Replies in a row with nothing in them, after which the run is given up."""


class Loop:
    """Runs tasks, one after the other, in one context.

    Args:
        asker: Asks the model.
        context: What the model gets to see.
        supervisor: Runs the blocks.
        inbox: Where everything lands.
        hooks: The caller's own code.
        emit: Gets the events.
        reporter: Writes what has landed.
        goal: Whether an answer ends a run.
        wake_ups: When the model wants to be woken.
        answer_type: What an answer has to be, or None for any text.
        wall: The time in seconds since the epoch.
        turn: The number of the last turn that there was.
    """

    def __init__(
        self,
        asker: Asker,
        context: Context,
        supervisor: Supervisor,
        inbox: Inbox,
        hooks: HookChain,
        emit: Callable[[Event], None],
        reporter: Reporter,
        goal: Goal,
        wake_ups: WakeUps,
        *,
        answer_type: AnswerType | None = None,
        wall: Callable[[], float] = time.time,
        turn: int = 0,
    ) -> None:
        self._asker = asker
        self._context = context
        self._supervisor = supervisor
        self._inbox = inbox
        self._hooks = hooks
        self._emit = emit
        self._reporter = reporter
        self._answer_type = answer_type
        self._goal = goal
        self._wake_ups = wake_ups
        self._compactor = Compactor(asker, context)
        self._standstill = Standstill()
        self._wall = wall
        self._turn = turn
        self._budget = Budget()
        self._told: set[str] = set()
        """The limits of this run of which the model knows that they are near."""
        self._beaten: list[str] = []
        """The blocks whose heartbeats are all that the model was woken by."""

    async def run(self, task: str, budget: Budget, *, hears: bool = False) -> tuple[str, Any]:
        """Work on a task until it is answered; on a standing goal, until it is met.

        Args:
            task: The task.
            budget: What the run may use, this agent and all others of its tree together.
            hears: Whether what lies in the inbox is told with the task.

        Returns:
            The answer, and its value where answers have a type.

        Raises:
            LimitReached: If a limit was reached.
            ModelError: If the model cannot be asked.
            Refused: If a hook refused a call to the model.
        """
        text = self._context.fit(task, self._reporter.handle("self.history.task"))
        return await self._within(budget, None, hears, Task(self._goal.task(text)))

    async def go_on(self, last: Reply | None, budget: Budget) -> tuple[str, Any]:
        """Go on with a run that an earlier process has begun.

        Args:
            last: Its last reply, where nothing of what it caused was told yet.
            budget: What the run may use, and has used.

        Returns:
            As in `run`.

        Raises:
            CodeactError: As in `run`.
        """
        return await self._within(budget, last, last is None)

    async def _within(
        self, budget: Budget, last: Reply | None, hears: bool, task: Task | None = None
    ) -> tuple[str, Any]:
        self._budget, self._told = budget, set()
        self._standstill.begin()
        try:
            with self._wake_ups.ticking():
                async with asyncio.timeout(budget.left.get("seconds")) as time_left:
                    if task is not None:
                        await self._take_in(task)
                    if hears and self._inbox:
                        await self._listen(None)
                    return await self._turns(last)
        except TimeoutError as error:
            if not time_left.expired():
                raise  # a hook's own
            allowed = budget.limits.seconds or 0
            raise LimitReached("the time is up", limit="seconds", allowed=allowed) from error

    async def _turns(self, last: Reply | None) -> tuple[str, Any]:
        empty = invalid = 0
        while True:
            if last is None:
                self._budget.take_turn()
            reply, last = last or await self._ask(), None
            self._pace(reply)
            empty = empty + 1 if not (reply.text.strip() or reply.calls) else 0
            if empty == EMPTY_REPLIES:
                raise ModelRefused("the model replied nothing at all, three times in a row")
            if self._is_answer(reply):
                try:
                    answer = await self._accept(reply)
                except ValueError as problem:
                    invalid += 1
                    if invalid > TRIES:
                        raise ModelRefused(
                            f"no answer of the wanted type in {TRIES} tries: {problem}"
                        ) from None
                    self._inbox.put(
                        Report("fault", f"Your answer does not validate: {problem}. Answer again.")
                    )
                else:
                    if answer is not None:
                        return answer
            elif not reply.text.strip() and not reply.calls and not self._busy:
                self._inbox.put(Report("fault", "Your reply was empty. Write a block, or your answer."))
            await self._listen(reply)

    async def _ask(self) -> Reply:
        self._turn += 1
        messages = self._context.messages()
        context = self._context
        self._emit(TurnStarted(self._turn, self._wall(), context.count(messages), context.window))
        while True:
            try:
                reply = await self._asker.ask(messages, self._turn)
                break
            except ContextOverflow:
                self._context.learn_overflow(messages)
                handle = self._reporter.handle(f"self.history.turn({self._turn - 1})")
                self._append(*await self._compactor.make_room_for_last(self._turn, handle))
                messages = self._context.messages()
        self._context.learn(messages, reply)
        self._append(reply)
        for fault in reply.faults:
            if not fault.runs:
                self._inbox.put(fault_report(fault))
        await self._hooks.after_model_call(reply)
        return reply

    def _pace(self, reply: Reply) -> None:
        """Report less often what the model only waits for, and as it asked once it does anything."""
        if reply.calls or reply.faults or not all(isinstance(part, Prose) for part in reply.parts):
            self._supervisor.restore_heartbeats()
        else:
            self._supervisor.slow_down(self._beaten)

    async def _take_in(self, entry: Task | Observation) -> None:
        """Add what the model reads next; where it would leave no room for a reply, some is made first."""
        size = self._context.size_with(entry)
        if (knowledge := await self._context.take_knowledge()) is not None:
            self._append(knowledge)
            size = self._context.size_with(entry)
        elif self._context.overflows(size):
            self._append(*await self._compactor.make_room(self._turn))
            size = self._context.size_with(entry)
        else:
            self._compactor.there_is_room()
        if isinstance(entry, Observation) and (reminder := self._context.reminder(size)):
            entry = observation([*entry.reports, reminder])
        self._append(entry)

    @property
    def _busy(self) -> bool:
        """Whether something runs, will wake the model, or has landed that it does not know."""
        return bool(self._inbox or self._supervisor.live or self._wake_ups.pending)

    def _is_answer(self, reply: Reply) -> bool:
        only_prose = all(isinstance(part, Prose) for part in reply.parts) and not reply.calls
        return only_prose and bool(reply.text.strip()) and not self._busy

    async def _accept(self, reply: Reply) -> tuple[str, Any] | None:
        """Take an answer, unless somebody still wants something: None then.

        Raises:
            ValueError: If it is not of the wanted type.
        """
        text = reply.text.strip()
        if more := await self._goal.after(text):
            self._inbox.turn_up_follow_ups()
            for report in more:
                self._inbox.put(report)
            return None
        value = self._answer_type.read(text) if self._answer_type else None
        if self._inbox.turn_up_follow_ups():
            return None
        wish = await self._hooks.on_stop(text)
        if wish is not None:
            self._inbox.put(Note("host", wish))
            return None
        # What has come meanwhile is answered first: a command, or a caller's code, may take its time.
        return None if self._inbox else (text, value)

    async def _listen(self, reply: Reply | None) -> None:
        """Wait until something lands after a reply, and write it down as one message."""
        await self._inbox.wait()
        items = self._inbox.take()
        beaten = [item.id for item in items if isinstance(item, Heartbeat)]
        self._beaten = beaten if len(beaten) == len(items) else []
        reports = await self._reporter.reports(items)
        if reply is not None and not (self._supervisor.live or self._wake_ups.pending):
            reports += self._standstill.look(reply, reports, self._wall() - reply.ended)
        await self._take_in(observation([*reports, *self._warnings()]))

    def _warnings(self) -> list[Report]:
        """What the model has to know of limits that are near, once of each."""
        news = {limit: text for limit, text in self._budget.near().items() if limit not in self._told}
        self._told |= news.keys()
        return [reminder_report(text) for text in news.values()]

    def _append(self, *entries: Entry) -> None:
        for entry in entries:
            self._emit(Appended(self._turn, entry))

"""The agent: what a caller holds.

Comes in: tasks, notes, wishes to stop. Goes out: runs, and the events of runs.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from codeact_kernel.agent.assembly import Parts, Relations, assemble
from codeact_kernel.agent.bookkeeping import Bookkeeping
from codeact_kernel.agent.hooks import Refused
from codeact_kernel.agent.inbox import Inbox, Note
from codeact_kernel.agent.kin import Kin
from codeact_kernel.agent.limiting import how_to_go_on, spent_before, with_chosen
from codeact_kernel.agent.loop import Loop
from codeact_kernel.agent.options import Options
from codeact_kernel.agent.past import Past, open_past
from codeact_kernel.agent.recording import OUTPUTS
from codeact_kernel.agent.remembering import check_not_weaker
from codeact_kernel.agent.resuming import take_past
from codeact_kernel.agent.run import Run
from codeact_kernel.agent.rundir import make_agent_dir, make_run_dir
from codeact_kernel.blocks import AgentBlock
from codeact_kernel.dialogue import reminder_report
from codeact_kernel.errors import CodeactError, ConfigError, LimitReached, RecordError
from codeact_kernel.events import (
    BlockFinished,
    BlockHeld,
    Event,
    Heartbeat,
    NoteReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    Spent,
    StopReason,
    WakeUpSet,
)
from codeact_kernel.policy import Budget, Limits
from codeact_kernel.runfiles import Folder
from codeact_kernel.supervisor import LiveBlock
from codeact_kernel.transcript import Transcript


@dataclass(eq=False)
class Agent(Options):
    """An agent with its own kernel; the fields say what it shall be.

    An `async with`: the kernel lives as long as the block. Runs one after the other go on in the same
    conversation and the same namespace. Entering raises `ConfigError` where something of the fields is wrong, and
    `KernelError` where the kernel does not start.
    """

    def __post_init__(self) -> None:
        self._kin: Kin | None = None
        self.transcript = Transcript()
        """What happened so far."""
        self.record_error: RecordError | None = None
        """Why the record could not be written, once; None where it was."""
        self._inbox = Inbox()
        self._stack = AsyncExitStack()
        self._parts: Parts | None = None
        self._listeners: list[Callable[[Event], None]] = list(self.observers)
        self._running: asyncio.Task[tuple[str, Any]] | None = None
        self._stopping = False
        self._books = Bookkeeping(self.transcript, self._record_failed, self._break_off)
        self._past: Past | None = None
        """What it goes on with, until that is taken up."""
        self._given: frozenset[str] = frozenset()
        """The options that were given to a resume."""

    async def __aenter__(self) -> Self:
        try:
            self._parts = await assemble(
                self,
                self._stack,
                self._inbox,
                self.transcript,
                self._emit,
                self._remind,
                Relations(
                    self._kin,
                    _spawn,
                    lambda: self._folder,
                    self.steer,
                    lambda: self._turns,
                    self._books.mask,
                    self._books.audit,
                ),
            )
            if self._past is not None:
                parts = self._parts
                check_not_weaker(self._past.now, parts.remembered, parts.sandbox, self._given)
        except BaseException as error:
            self._books.mask.error(error)
            await self._end()
            raise
        return self

    async def _end(self) -> None:
        await self._stack.aclose()
        if self._past is not None:
            self._past.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return await self._stack.__aexit__(kind, error, trace)
        finally:
            if self._past is not None:
                self._past.close()
            await self._books.aclose()

    async def run(
        self,
        task: str,
        *,
        max_turns: int | None = None,
        max_time: str | float | None = None,
        max_tokens: str | int | None = None,
        max_cost: float | None = None,
        goal: bool = False,
        until: str | None = None,
    ) -> Run:
        """Work on a task until it is answered, stopped, or out of what it may use.

        Args:
            task: The task.
            max_turns: Replies that it may take; as the others, with all sub-agents, and None takes the agent's field.
            max_time: How long it may take: "2h", or seconds.
            max_tokens: Tokens that it may use: "200k", or a number.
            max_cost: What it may cost, in US dollars.
            goal: Whether the task is a standing goal: the run goes on after answers, until the model declares it met
                with what shows it.
            until: A command whose success means that the goal is met, and nothing else does; run after each answer.

        Returns:
            What came of it. A limit or a stop is no exception: see `Run.stop`.

        Raises:
            CodeactError: If the world failed (the model, the kernel); the record says so, too.
        """
        self._check_free()
        resumed = self._past is not None
        await self._take_past()
        limits = with_chosen(self._entered.limits, max_turns, max_time, max_tokens, max_cost)
        await self._begin(task, limits)
        self._entered.goal.begin(goal, until)
        budget = self._budget(limits)
        return await self._work(lambda loop: loop.run(task, budget, hears=resumed), budget)

    @classmethod
    def resume(
        cls,
        run: Path | str | Past,
        *,
        trust_record: bool = False,
        from_notebook: bool = False,
        given: Collection[str] | None = None,
        **options: Any,
    ) -> Self:
        """An agent that goes on where a run has stopped, for whatever reason: see `go_on`.

        Args:
            run: The run's folder, or its notebook.
            trust_record: Whether its record is taken though this user's installation did not write it.
            from_notebook: Whether the notebook is read in the place of the journal, which is lost.
            given: The options of which somebody has said that they may be weaker than before; None for all that follow.
            **options: Fields of the agent that are not as they were, or that no record keeps: functions, models, hooks.

        Raises:
            ConfigError: If there is no such run, another process works on it, or its record is not this user's.
            RecordError: If the record cannot be read.
        """
        if not isinstance(run, Past):
            run = open_past(Path(run), trusted=trust_record, from_notebook=from_notebook)
        agent = cls(**{**run.options, **options})
        agent.run_dir = run.folder.path
        agent._past, agent._given = run, frozenset(options if given is None else given)
        agent.transcript = run.transcript
        agent._books = Bookkeeping(agent.transcript, agent._record_failed, agent._break_off)
        return agent

    async def go_on(
        self,
        *,
        max_turns: int | None = None,
        max_time: str | float | None = None,
        max_tokens: str | int | None = None,
        max_cost: float | None = None,
    ) -> Run:
        """Go on with the run that was resumed: with its next turn, or with what is left of its last.

        Args:
            max_turns: Replies that the run may take, those of before included; as the others, None for what it had.
            max_time: As in `run`, all that it has taken before included.
            max_tokens: As `max_time`.
            max_cost: As `max_time`.

        Returns:
            What came of it, as from `run`.

        Raises:
            ConfigError: If it is answered.
            CodeactError: As in `run`.
        """
        self._check_free()
        past = self._past
        if past is None or self.transcript.runs[-1].stop == "answered":
            raise ConfigError("there is nothing to go on with: give it a further task")
        limits = with_chosen(self._entered.limits, max_turns, max_time, max_tokens, max_cost)
        await self._take_past(limits)
        budget = self._budget(limits, spent_before(past))
        return await self._work(lambda loop: loop.go_on(past.remains.unanswered, budget), budget)

    async def _work(
        self, begin: Callable[[Loop], Coroutine[Any, Any, tuple[str, Any]]], budget: Budget
    ) -> Run:
        """Let the loop work on the last run, to its end."""
        record, began = self.transcript.runs[-1], time.time()
        self._running = asyncio.get_running_loop().create_task(begin(self._entered.loop))
        if self._stopping:
            self._running.cancel()
        stop: StopReason = "failed"
        answer, value, message = None, None, ""
        try:
            answer, value = await self._running
            answer = self._books.mask.text(answer)
            stop = "answered"
        except LimitReached as limit:
            stop = "limit"
            message = limit.message if self._kin else how_to_go_on(limit, self.record)
        except asyncio.CancelledError:
            if (unaudited := self._books.unaudited) is not None:
                message = unaudited.message
                raise unaudited from None
            stop, message = "cancelled", "it was stopped"
            if not self._stopping:
                raise
        except (CodeactError, Refused) as error:
            self._books.mask.error(error)
            message = str(error)
            if isinstance(error, CodeactError):
                raise
        finally:
            self._running.cancel()
            self._running = None
            self.release()
            await self._settle()
            # A root's is that of all: also of what was broken off, and of sub-agents that were ended.
            usage = self.transcript.usage - record.before if self._kin else budget.spent.usage
            ended = RunEnded(stop, answer, usage, record.turn_count, time.time(), message)
            self._emit(ended)
        return Run(
            record.start.run_id,
            record.start.task,
            ended.stop,
            answer,
            value,
            usage,
            ended.turns,
            record.worked + ended.at - began,
            message,
            self.record,
        )

    async def stream(self, task: str, **limits: Any) -> AsyncGenerator[Event]:
        """Work on a task and yield its events as they happen; the last one is `RunEnded`.

        Args:
            task: The task.
            **limits: As in `run`.

        Raises:
            CodeactError: As in `run`, after the last event.
        """
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._listeners.append(queue.put_nowait)
        running = asyncio.get_running_loop().create_task(self.run(task, **limits))
        running.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            await running
        finally:
            self._listeners.remove(queue.put_nowait)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def steer(self, text: str, sender: str = "user") -> None:
        """Tell the agent something; it reads it before its next reply.

        Args:
            text: What it shall know.
            sender: Who says it.
        """
        self._emit(NoteReceived(sender, text))
        self._inbox.put(Note(sender, text))

    def follow_up(self, text: str, sender: str = "user") -> None:
        """Tell the agent something that it reads only when it would stop; it goes on then.

        Args:
            text: What it shall know.
            sender: Who says it.
        """
        self._emit(NoteReceived(sender, text))
        self._inbox.follow_up(Note(sender, text))

    def cancel(self, id: str, reason: str = "by the user") -> bool:  # noqa: A002
        """End a block.

        Args:
            id: The block's id.
            reason: Who or what wants it, for the model.

        Returns:
            Whether there was one to end.
        """
        return self._entered.supervisor.cancel(id, reason)

    def cancel_blocks(self, reason: str = "by the user") -> int:
        """End all blocks that run or wait.

        Args:
            reason: Who or what wants it, for the model.

        Returns:
            How many.
        """
        return sum(self.cancel(live.id, reason) for live in self.live)

    async def settled(self) -> None:
        """Wait until no block runs or waits."""
        await self._entered.supervisor.settled()

    def hold(self) -> None:
        """Let the run start nothing new, no block and no call to the model, until `release`.

        What runs goes on, the reply that streams included. For a person who has to think: a note that is given
        meanwhile is read with all else that has come.
        """
        self._inbox.hold()

    def release(self) -> None:
        """Let the run go on after `hold`."""
        self._inbox.release()

    def stop(self) -> None:
        """End the run that is going on; its blocks are ended, too, and the record is kept."""
        self._stopping = True
        if self._running is not None:
            self._running.cancel()

    async def _end_kernel(self, reason: str) -> None:
        """End the kernel's process at once, with all that runs in it.

        Args:
            reason: Why, as a clause that follows "the kernel".
        """
        await self._entered.kernel.kill(reason)

    @property
    def live(self) -> list[LiveBlock]:
        """The blocks that run or wait."""
        return self._entered.supervisor.live

    @property
    def wake_ups(self) -> list[WakeUpSet]:
        """What the model wants to be woken for, the next one first; while there is one, a run does not end."""
        return self._entered.wake_ups.pending

    @property
    def record(self) -> Path | None:
        """The notebook that holds the runs; None before the first one, and where no record is kept."""
        return self._books.notebook

    @property
    def _folder(self) -> Folder | None:
        return self._books.folder

    @property
    def context_tokens(self) -> int:
        """The size of the context, in tokens."""
        context = self._entered.context
        return context.count(context.messages())

    @property
    def memory(self) -> tuple[tuple[float, int], ...]:
        """What the kernel's processes held: (seconds since the epoch, bytes), oldest first, over its whole life."""
        return self._entered.kernel.memory

    @property
    def _entered(self) -> Parts:
        if self._parts is None:
            raise RuntimeError("use the agent inside `async with Agent(…) as agent`")
        return self._parts

    @property
    def _turns(self) -> int:
        return self.transcript.turn_count

    def _check_free(self) -> None:
        if self._entered and self._running is not None:
            raise RuntimeError("this agent works on a task already; steer it, or use another agent")
        # From here on a stop counts, also one that comes with the run's first event.
        self._stopping = False

    async def _begin(self, task: str, limits: Limits) -> None:
        parts = self._entered
        if self._books.folder is None and self.run_dir is not False:
            await self._open_record(task)
        self._books.open_audit(parts.settings, self.audit)
        started = RunStarted(
            uuid.uuid4().hex[:12],
            task,
            parts.model.name,
            parts.context.system or "",
            time.time(),
            *self._what_counts(limits),
        )
        self._emit(started)

    def _what_counts(self, limits: Limits) -> tuple[str, str, str, str, dict[str, Any]]:
        """What a run's beginning tells of the kernel, the approvals, the sandbox and the options."""
        parts = self._entered
        return (
            parts.kernel.description,
            parts.mode,
            parts.sandbox,
            parts.about_sandbox,
            parts.remembered | {"limits": asdict(limits)},
        )

    async def _take_past(self, limits: Limits | None = None) -> None:
        """Take up the run that was resumed, once: its record, what it left open, what is left of its namespace.

        Args:
            limits: Those of its last run, where that goes on; None where another one begins.
        """
        past, self._past = self._past, None
        if past is None:
            return
        parts = self._entered
        self._shelve(past.folder)
        await self._books.go_on(past)
        self._books.open_audit(parts.settings, self.audit)
        resumed = RunResumed(
            past.transcript.runs[-1].start.run_id,
            time.time(),
            parts.model.name,
            *self._what_counts(limits or Limits()),
            past.remains.worked,
        )
        await take_past(past, parts, resumed, self._emit, self._inbox, goes_on=limits is not None)

    def _budget(self, limits: Limits, spent: Spent | None = None) -> Budget:
        """The budget of a run: a new one for a root's, for others that of their tree."""
        parts = self._entered
        tree = parts.kin.tree
        if self._kin is None:
            clock = asyncio.get_running_loop().time
            warn_at = parts.settings.limit_reminder
            tree.budget = Budget(limits, spent, warn_at=warn_at, tell=self._emit, clock=clock)
        return tree.budget

    async def _open_record(self, task: str) -> None:
        parts = self._entered
        if self._kin is not None and self._kin.record is not None:
            folder = make_agent_dir(self._kin.record, self._kin.path[-1])
        else:
            chosen = Path(self.run_dir) if isinstance(self.run_dir, str | Path) else None
            folder = make_run_dir(parts.workspace, self._books.mask.text(task), chosen)
        self._shelve(folder)
        await self._books.open_record(folder)

    def _shelve(self, folder: Folder) -> None:
        """Let long outputs go into the run's folder."""
        shelf = self._entered.supervisor.shelf
        shelf.folder, shelf.opens = folder.path / OUTPUTS, lambda: folder.sub(OUTPUTS)

    def _break_off(self) -> bool:
        if self._running is None:
            return False
        self._running.cancel()
        return True

    async def _settle(self) -> None:
        """End what still runs; the supervisor bounds the wait."""
        supervisor = self._entered.supervisor
        if self.cancel_blocks("the run ended"):
            await supervisor.settled()
        self._inbox.drop()

    def _remind(self, text: str) -> None:
        """Let the model know something: at once where blocks run on meanwhile, else with what it reads next."""
        running = self._parts is not None and self._parts.supervisor.live
        (self._inbox.put if running else self._inbox.put_aside)(reminder_report(text))

    def _emit(self, event: Event) -> None:
        """Pass an event on: kept first, then to everybody else.

        Raises:
            RecordError: If what it announces must not happen, because it cannot be audited.
        """
        for kept in self._books.take(event):
            self._tell(kept)

    def _tell(self, event: Event) -> None:
        match event:
            case BlockFinished():
                if isinstance(event.result.block, AgentBlock) and event.result.block.by:
                    self._entered.delegation.take(event.result)
                else:
                    self._inbox.put(event.result)
            case Heartbeat() | BlockHeld():
                self._inbox.put(event)
            case _:
                pass
        for listener in list(self._listeners):
            listener(event)

    def _record_failed(self, error: RecordError) -> None:
        self.record_error = self.record_error or error


def _spawn(options: Options, kin: Kin) -> Agent:
    agent = Agent(**{field.name: getattr(options, field.name) for field in fields(Options)})
    agent._kin = kin
    agent._books = Bookkeeping(agent.transcript, agent._record_failed, agent._break_off, kin)
    return agent

"""An agent's insides: its parts, what it leaves behind, and the run that goes on.

Comes in: options, tasks, wishes to stop. Goes out: runs, each from its beginning, or from where an earlier process has
left it, to its end; the events of runs, to all who have to hear of them.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Collection, Coroutine
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from codeact_kernel.agent.assembly import Parts, Relations, assemble
from codeact_kernel.agent.bookkeeping import Bookkeeping
from codeact_kernel.agent.hooks import Refused
from codeact_kernel.agent.inbox import Inbox, Note
from codeact_kernel.agent.kin import Kin
from codeact_kernel.agent.limiting import how_to_go_on, spent_before
from codeact_kernel.agent.loop import Loop
from codeact_kernel.agent.options import Options
from codeact_kernel.agent.past import Past
from codeact_kernel.agent.reattaching import place_of
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
    KernelLeased,
    NoteReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    Spent,
    StopReason,
)
from codeact_kernel.policy import Budget, Limits
from codeact_kernel.runfiles import Folder
from codeact_kernel.transcript import Transcript

if TYPE_CHECKING:
    from codeact_kernel.agent.agent import Agent


class Working:
    """An agent at work.

    Args:
        options: What it is.
        kin: Its place; None for a root.
        past: What it goes on with; None for nothing.
        given: The options that were given to a resume.
    """

    def __init__(
        self,
        options: Options,
        kin: Kin | None = None,
        past: Past | None = None,
        given: Collection[str] = (),
    ) -> None:
        self._options = options
        self._kin = kin
        self._past = past
        """What it goes on with, until that is taken up."""
        self._given = given
        self._parts: Parts | None = None
        self._stack = AsyncExitStack()
        self._running: asyncio.Task[tuple[str, Any]] | None = None
        self._stopping = False
        self.transcript = Transcript() if past is None else past.transcript
        self.inbox = Inbox()
        self.books = Bookkeeping(self.transcript, self._record_failed, self._break_off, kin)
        self.listeners: list[Callable[[Event], None]] = list(options.observers)
        self.record_error: RecordError | None = None
        """Why the record could not be written, once."""

    @property
    def parts(self) -> Parts:
        """What it is made of.

        Raises:
            RuntimeError: If it is not open.
        """
        if self._parts is None:
            raise RuntimeError("use the agent inside `async with Agent(…) as agent`")
        return self._parts

    async def open(self, spawn: Callable[[Options, Kin], Agent]) -> None:
        """Start the parts.

        Args:
            spawn: Makes a sub-agent.

        Raises:
            CodeactError: As entering an agent does.
        """
        relations = Relations(
            self._kin,
            spawn,
            lambda: self.books.folder,
            self.note,
            lambda: self.transcript.turn_count,
            self.books.mask,
            self.books.audit,
            place_of(self._past.remains) if self._past is not None and self._past.is_ours else None,
        )
        try:
            self._parts = parts = await assemble(
                self._options, self._stack, self.inbox, self.transcript, self.emit, self._remind, relations
            )
            if parts.following is not None:
                self.listeners.append(parts.following)
            if self._past is not None:
                check_not_weaker(self._past.now, parts.remembered, parts.sandbox, self._given)
        except BaseException as error:
            self.books.mask.error(error)
            await self.close()
            raise

    async def close(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> bool | None:
        """End the parts, and keep what is not kept; as `__aexit__`."""
        try:
            return await self._stack.__aexit__(kind, error, trace)
        finally:
            if self._past is not None:
                self._past.close()
            await self.books.aclose()

    # -- runs ---------------------------------------------------------------------------------------------

    async def begin(self, task: str, limits: Limits, goal: bool, until: str | None) -> Run:
        """Work on a task, as `Agent.run` does."""
        self._check_free()
        resumed = self._past is not None
        await self._take_past()
        await self._announce(task, limits)
        self.parts.goal.begin(goal, until)
        budget = self._budget(limits)
        return await self._work(lambda loop: loop.run(task, budget, hears=resumed), budget)

    async def go_on(self, limits: Limits) -> Run:
        """Go on with the run that was resumed, as `Agent.go_on` does."""
        self._check_free()
        past = self._past
        if past is None or self.transcript.runs[-1].stop == "answered":
            raise ConfigError("there is nothing to go on with: give it a further task")
        await self._take_past(limits)
        budget = self._budget(limits, spent_before(past))
        return await self._work(lambda loop: loop.go_on(past.remains.unanswered, budget), budget)

    def stop(self) -> None:
        """End the run that goes on."""
        self._stopping = True
        self._break_off()

    def cancel_blocks(self, reason: str) -> int:
        """End all blocks that run or wait; gives how many."""
        supervisor = self.parts.supervisor
        return sum(supervisor.cancel(live.id, reason) for live in supervisor.live)

    def note(self, text: str, sender: str) -> None:
        """Let the model read something before its next reply."""
        self.emit(NoteReceived(sender, text))
        self.inbox.put(Note(sender, text))

    def _check_free(self) -> None:
        if self.parts and self._running is not None:
            raise RuntimeError("this agent works on a task already; steer it, or use another agent")
        # From here on a stop counts, also one that comes with the run's first event.
        self._stopping = False

    async def _announce(self, task: str, limits: Limits) -> None:
        parts = self.parts
        if self.books.folder is None and self._options.run_dir is not False:
            await self._open_record(task)
        self.books.open_audit(parts.settings, self._options.audit)
        started = RunStarted(
            uuid.uuid4().hex[:12],
            task,
            parts.model.name,
            parts.context.system or "",
            time.time(),
            *self._what_counts(limits),
        )
        self.emit(started)
        if (leased := parts.kernel.leased) is not None:
            self.emit(KernelLeased(**asdict(leased)))

    async def _take_past(self, limits: Limits | None = None) -> None:
        """Take up the run that was resumed, once: its record, what it left open, what is left of its namespace.

        Args:
            limits: Those of its last run, where that goes on; None where another one begins.
        """
        past = self._past
        if past is None:
            return
        past.write_journal_anew()
        self._past = None
        parts = self.parts
        self._shelve(past.folder)
        await self.books.go_on(past)
        self.books.open_audit(parts.settings, self._options.audit)
        resumed = RunResumed(
            past.transcript.runs[-1].start.run_id,
            time.time(),
            parts.model.name,
            *self._what_counts(limits or Limits()),
            past.remains.worked,
        )
        await take_past(past, parts, resumed, self.emit, self.inbox, goes_on=limits is not None)

    def _what_counts(self, limits: Limits) -> tuple[str, str, str, str, dict[str, Any]]:
        """What a run's beginning tells of the kernel, the approvals, the sandbox and the options."""
        parts = self.parts
        return (
            parts.kernel.description,
            parts.mode,
            parts.sandbox,
            parts.about_sandbox,
            parts.remembered | {"limits": asdict(limits)},
        )

    def _budget(self, limits: Limits, spent: Spent | None = None) -> Budget:
        """The budget of a run: a new one for a root's, for others that of their tree."""
        parts = self.parts
        tree = parts.kin.tree
        if self._kin is None:
            clock = asyncio.get_running_loop().time
            warn_at = parts.settings.limit_reminder
            tree.budget = Budget(limits, spent, warn_at=warn_at, tell=self.emit, clock=clock)
        return tree.budget

    async def _work(
        self, begin: Callable[[Loop], Coroutine[Any, Any, tuple[str, Any]]], budget: Budget
    ) -> Run:
        """Let the loop work on the last run, to its end."""
        record, began = self.transcript.runs[-1], time.time()
        self._running = asyncio.get_running_loop().create_task(begin(self.parts.loop))
        if self._stopping:
            self._running.cancel()
        stop: StopReason = "failed"
        answer, value, message = None, None, ""
        try:
            answer, value = await self._running
            answer = self.books.mask.text(answer)
            stop = "answered"
        except LimitReached as limit:
            stop = "limit"
            message = limit.message if self._kin else how_to_go_on(limit, self.books.notebook)
        except asyncio.CancelledError:
            if (unaudited := self.books.unaudited) is not None:
                message = unaudited.message
                raise unaudited from None
            stop, message = "cancelled", "it was stopped"
            if not self._stopping:
                raise
        except (CodeactError, Refused) as error:
            self.books.mask.error(error)
            message = str(error)
            if isinstance(error, CodeactError):
                raise
        finally:
            self._running.cancel()
            self._running = None
            self.inbox.release()
            await self._settle()
            # A root's is that of all: also of what was broken off, and of sub-agents that were ended.
            usage = self.transcript.usage - record.before if self._kin else budget.spent.usage
            ended = RunEnded(stop, answer, usage, record.turn_count, time.time(), message)
            self.emit(ended)
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
            self.books.notebook,
        )

    async def _settle(self) -> None:
        """End what still runs; the supervisor bounds the wait."""
        supervisor = self.parts.supervisor
        if self.cancel_blocks("the run ended"):
            await supervisor.settled()
        self.inbox.drop()

    def _break_off(self) -> bool:
        if self._running is None:
            return False
        self._running.cancel()
        return True

    async def _open_record(self, task: str) -> None:
        parts = self.parts
        if self._kin is not None and self._kin.record is not None:
            folder = make_agent_dir(self._kin.record, self._kin.path[-1])
        else:
            chosen = Path(self._options.run_dir) if isinstance(self._options.run_dir, str | Path) else None
            folder = make_run_dir(parts.workspace, self.books.mask.text(task), chosen)
        self._shelve(folder)
        await self.books.open_record(folder)

    def _shelve(self, folder: Folder) -> None:
        """Let long outputs go into the run's folder."""
        shelf = self.parts.supervisor.shelf
        shelf.folder, shelf.opens = folder.path / OUTPUTS, lambda: folder.sub(OUTPUTS)

    # -- events -------------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Pass an event on: kept first, then to everybody else.

        Raises:
            RecordError: If what it announces must not happen, because it cannot be audited.
        """
        for kept in self.books.take(event):
            self._tell(kept)

    def _tell(self, event: Event) -> None:
        match event:
            case BlockFinished():
                if isinstance(event.result.block, AgentBlock) and event.result.block.by:
                    self.parts.delegation.take(event.result)
                else:
                    self.inbox.put(event.result)
            case Heartbeat() | BlockHeld():
                self.inbox.put(event)
            case _:
                pass
        for listener in list(self.listeners):
            listener(event)

    def _remind(self, text: str) -> None:
        """Let the model know something: at once where blocks run on meanwhile, else with what it reads next."""
        running = self._parts is not None and self._parts.supervisor.live
        (self.inbox.put if running else self.inbox.put_aside)(reminder_report(text))

    def _record_failed(self, error: RecordError) -> None:
        self.record_error = self.record_error or error

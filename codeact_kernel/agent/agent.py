"""The agent: what a caller holds.

Comes in: tasks, notes, wishes to stop. Goes out: runs, and the events of runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from codeact_kernel.agent.inbox import Note
from codeact_kernel.agent.kin import Kin
from codeact_kernel.agent.limiting import with_chosen
from codeact_kernel.agent.options import Options
from codeact_kernel.agent.past import Past, open_past
from codeact_kernel.agent.run import Run
from codeact_kernel.agent.working import Working
from codeact_kernel.errors import RecordError
from codeact_kernel.events import Event, NoteReceived, WakeUpSet
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
        self._working = Working(self)

    async def __aenter__(self) -> Self:
        await self._working.open(_spawn)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._working.close(kind, error, trace)

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
        limits = with_chosen(self._working.parts.limits, max_turns, max_time, max_tokens, max_cost)
        return await self._working.begin(task, limits, goal, until)

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
        agent._working = Working(agent, past=run, given=frozenset(options if given is None else given))
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
        limits = with_chosen(self._working.parts.limits, max_turns, max_time, max_tokens, max_cost)
        return await self._working.go_on(limits)

    async def seed(self, parcel: Path | str, names: Collection[str]) -> None:
        """Bind values that another kernel has written into a file.

        Args:
            parcel: The file; it has to stay as long as the agent lives, whose kernel may be restarted.
            names: The names that are in it.

        Raises:
            ConfigError: If something of it cannot be read in the agent's kernel; says what and why.
        """
        await self._working.parts.kernel.seed_parcel(str(parcel), names)

    async def stream(self, task: str, **limits: Any) -> AsyncGenerator[Event]:
        """Work on a task and yield its events as they happen; the last one is `RunEnded`.

        Args:
            task: The task.
            **limits: As in `run`.

        Raises:
            CodeactError: As in `run`, after the last event.
        """
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._working.listeners.append(queue.put_nowait)
        running = asyncio.get_running_loop().create_task(self.run(task, **limits))
        running.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            await running
        finally:
            self._working.listeners.remove(queue.put_nowait)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def steer(self, text: str, sender: str = "user") -> None:
        """Tell the agent something; it reads it before its next reply.

        Args:
            text: What it shall know.
            sender: Who says it.
        """
        self._working.note(text, sender)

    def follow_up(self, text: str, sender: str = "user") -> None:
        """Tell the agent something that it reads only when it would stop; it goes on then.

        Args:
            text: What it shall know.
            sender: Who says it.
        """
        self._working.emit(NoteReceived(sender, text))
        self._working.inbox.follow_up(Note(sender, text))

    def cancel(self, id: str, reason: str = "by the user") -> bool:  # noqa: A002
        """End a block.

        Args:
            id: The block's id.
            reason: Who or what wants it, for the model.

        Returns:
            Whether there was one to end.
        """
        return self._working.parts.supervisor.cancel(id, reason)

    def cancel_blocks(self, reason: str = "by the user") -> int:
        """End all blocks that run or wait.

        Args:
            reason: Who or what wants it, for the model.

        Returns:
            How many.
        """
        return self._working.cancel_blocks(reason)

    async def settled(self) -> None:
        """Wait until no block runs or waits."""
        await self._working.parts.supervisor.settled()

    def hold(self) -> None:
        """Let the run start nothing new, no block and no call to the model, until `release`.

        What runs goes on, the reply that streams included. For a person who has to think: a note that is given
        meanwhile is read with all else that has come.
        """
        self._working.inbox.hold()

    def release(self) -> None:
        """Let the run go on after `hold`."""
        self._working.inbox.release()

    def stop(self) -> None:
        """End the run that is going on; its blocks are ended, too, and the record is kept."""
        self._working.stop()

    async def _end_kernel(self, reason: str) -> None:
        """End the kernel's process at once, with all that runs in it.

        Args:
            reason: Why, as a clause that follows "the kernel".
        """
        await self._working.parts.kernel.kill(reason)

    @property
    def live(self) -> list[LiveBlock]:
        """The blocks that run or wait."""
        return self._working.parts.supervisor.live

    @property
    def wake_ups(self) -> list[WakeUpSet]:
        """What the model wants to be woken for, the next one first; while there is one, a run does not end."""
        return self._working.parts.wake_ups.pending

    @property
    def record(self) -> Path | None:
        """The notebook that holds the runs; None before the first one, and where no record is kept."""
        return self._working.books.notebook

    @property
    def context_tokens(self) -> int:
        """The size of the context, in tokens."""
        context = self._working.parts.context
        return context.count(context.messages())

    @property
    def memory(self) -> tuple[tuple[float, int], ...]:
        """What the kernel's processes held: (seconds since the epoch, bytes), oldest first, over its whole life."""
        return self._working.parts.kernel.memory

    @property
    def transcript(self) -> Transcript:
        """What happened so far; of a long run its end, since the record holds the rest."""
        return self._working.transcript

    @property
    def record_error(self) -> RecordError | None:
        """Why the record could not be written, once; None where it was."""
        return self._working.record_error


def _spawn(options: Options, kin: Kin) -> Agent:
    agent = Agent(**{field.name: getattr(options, field.name) for field in fields(Options)})
    agent._working = Working(agent, kin)
    return agent

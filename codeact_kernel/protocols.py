"""The joints: what each station promises the agent, so that the stations need not know each other.

Comes in: the nouns. Goes out: `Model`, `Codec` with its `ReplyReader`, `Runner` with its `Watcher`, `Counted`,
`PlaceKeeper`, `Observer`, `TreeObserver`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Protocol, runtime_checkable

from codeact_kernel.blocks import Fault, Job, Outcome, Output, Part
from codeact_kernel.events import Entry, Event
from codeact_kernel.messages import CallPiece, Message, ModelRequest, Piece, ToolCall, ToolSchema


class Model(Protocol):
    """A model that can be asked."""

    @property
    def name(self) -> str:
        """What the endpoint calls it."""

    @property
    def window(self) -> int | None:
        """Tokens that fit in its window, or None where that is not known."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Ask, and stream the reply.

        Contract: the loop calls it once a call and reads it to its end or closes it. The last piece is an
        `EndPiece`, also when the stream broke (then with `finish=None`). It may raise a `ModelError`, before
        the first piece only; it retries what is worth it by itself. It may be cancelled at any await.

        Args:
            request: The messages and what goes with them.
        """

    async def aclose(self) -> None:
        """Let go of connections. Contract: called once, at the end; does not raise."""


class ReplyReader(Protocol):
    """Reads one reply as it streams."""

    def feed(self, piece: str | CallPiece) -> Sequence[Part | Fault]:
        """Take the next piece and return the parts that are complete now.

        Contract: called in the order of arrival; never raises for anything that a model can write. A block
        is returned the moment its closing tag has arrived. Prose is returned in pieces, as soon as it can be
        nothing else; the pieces of one stretch of prose follow each other.

        Args:
            piece: Characters of the reply, or a part of a tool call.
        """

    def finish(self, reason: str | None) -> Sequence[Part | Fault]:
        """Take the end of the stream and return what is left.

        Contract: called once a stream. Where the reply was cut inside a block or in prose (`cut` is then
        true), the loop asks for the rest and goes on feeding the same reader after `resume`.

        Args:
            reason: The finish reason; "length" or None mean that the reply was cut.
        """

    @property
    def cut(self) -> bool:
        """Whether the reply broke off and the rest has to be asked for (or is given up)."""

    def resume(self) -> None:
        """Go on at the cut point: what is fed next continues the last character received."""

    def give_up(self) -> Sequence[Part | Fault]:
        """Stop waiting for the rest: returns what can be returned, and the fault that the model is told."""

    @property
    def writing(self) -> tuple[str, str] | None:
        """The block whose end has not come: "run_code" or "run_agent", and what of it has, for showing.

        None outside of blocks, and where the codec cannot tell yet.
        """

    @property
    def text(self) -> str:
        """What of the reply stays in the context: no reasoning, nothing that was dropped as invented."""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the reply, where the codec works with those."""


class Codec(Protocol):
    """One way of exchanging blocks and reports with a model: tags, tool calls, or calls as JSON in text."""

    @property
    def name(self) -> str:
        """Which one it is: "tags", "tools" or "json"."""

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop sequences that end a reply before it invents what we would have said."""

    @property
    def tools(self) -> tuple[ToolSchema, ...]:
        """What is offered to the endpoint's own tool calling."""

    def reader(self, compiles: Callable[[str], bool], in_use: Collection[str] = ()) -> ReplyReader:
        """Begin to read a reply.

        Args:
            compiles: Whether code compiles after the kernel's own transform; decides whether a block whose
                closing tag is missing runs.
            in_use: Ids and names that are alive and cannot be given again.
        """

    def messages(self, system: str | None, entries: Sequence[Entry]) -> list[Message]:
        """Write the context for the endpoint.

        Contract: pure; for entries that only grow at their end the messages only grow at their end.

        Args:
            system: The system prompt, or None for none.
            entries: The entries that the window kept, oldest first.
        """

    def continuation(self, text: str) -> list[Message]:
        """The messages that ask for the rest of a reply that was cut.

        Args:
            text: All of the reply that has come so far, exactly as received.
        """


class Watcher(Protocol):
    """Hears of a job while it runs. Contract: called in the loop's thread; must not block, must not raise."""

    def started(self, lane: str, at: float) -> None:
        """The first line of code runs, in this lane, at this time (seconds since the epoch)."""

    def held(self, by: str | None) -> None:
        """Another job's code (its id) keeps it from going on, or no longer does (None)."""

    def output(self, output: Output) -> None:
        """The job put something out. Also called after its end, for late output."""


@runtime_checkable
class Counted(Protocol):
    """What a `Watcher` may be besides: one that keeps how far outputs have come, for a process that takes over."""

    def upto(self, number: int) -> None:
        """Whoever is told of the next output has all of them before this number, as the kernel counts them."""


LAST = 99
"""The insistence of the last interrupt."""


class Runner(Protocol):
    """Runs jobs of one kind."""

    async def run(self, job: Job, watcher: Watcher) -> Outcome:
        """Run a job to its end.

        Contract: the supervisor calls it once a job, each in a task of its own. It returns when the job is
        complete, with every output reported before. What the code did wrong is in the outcome; a
        `KernelError` means that the place where it ran is gone. Cancelling it gives the job up.

        Args:
            job: The block and its settled id.
            watcher: Who hears of its start and its outputs.
        """

    async def interrupt(self, job_id: str, insistence: int = 0) -> None:
        """Interrupt one job, running or still waiting.

        Contract: the supervisor calls it again and again, at shorter intervals first, until `run` has returned;
        the last time with `LAST`, after which `run` returns within a second whatever the job's code does, or the
        supervisor leaves the job behind. Need not wait for the job's end; may be cancelled at any await; a job that
        has ended already is no error. What it took is told in the outcome.

        Args:
            job_id: The job's settled id.
            insistence: How often it was interrupted before, or `LAST`.
        """


@runtime_checkable
class PlaceKeeper(Protocol):
    """What a `Runner` may be besides: one that keeps a job's place in the order while somebody decides about it."""

    async def hold(self, job: Job) -> Callable[[], Awaitable[Outcome]] | None:
        """Keep the place of a job that may run later: what comes after it and needs what it makes, waits for it.

        Contract: the supervisor calls it at most once a job, before `run`, in the order in which jobs are launched,
        each in a task of its own; then it calls `run` or `drop`. May raise a `KernelError`: no place is kept then.

        Args:
            job: The job, as it stands now; `run` may be given another block.

        Returns:
            What gives the outcome of a job that will not run, whatever is decided, because what it needs will
            not be made; it may wait for ever, and is cancelled then. None where that is not known.
        """

    async def drop(self, job: Job) -> None:
        """Give the place up, because the job does not run: what waits for it, or comes and needs it, is skipped.

        Contract: also called for a job of which `hold` was never called. May raise a `KernelError`.

        Args:
            job: The job.
        """


Observer = Callable[[Event], None]
"""Hears of every event, in order. Contract: called in the loop's thread; must not block, must not raise."""


@runtime_checkable
class TreeObserver(Protocol):
    """What an `Observer` may be besides: one that hears of sub-agents, too."""

    def __call__(self, event: Event) -> None:
        """As `Observer`."""

    def of_agent(self, name: str) -> Observer:
        """Give the observer of a sub-agent, its own sub-agents' included.

        Contract: called once a sub-agent, after its `BlockQueued` and before its first event; must not raise.

        Args:
            name: Its name, which is the id of its block.
        """

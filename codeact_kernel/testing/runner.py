"""A runner that plays blocks without a kernel.

Comes in: jobs whose code is written in a tiny language of calls with literal arguments, one a line: Python
for every reader of it (the grammar, the order by names), but no kernel is needed to run it. Goes out:
`FakeRunner`, a `Runner`, which plays them on the loop's own clock.

    queue(3, lane="async")   first line only: waits 3 s for its lane before its first line of code
    print("text")            writes a line to stdout; print("text", err=True) to stderr, end="" as in Python
    sleep(600)               lets time pass
    wait("go")               waits until the test calls `runner.signal("go")`
    show("text", id="bar")   displays text; update=True changes what was shown under that id
    value("42")              the value of the last expression
    clear()                  clears the output; clear(wait=True) when the next output comes
    fail("ValueError", "no") raises
    deaf()                   from here on interrupts have no effect
    late(5, "text")          writes a line to stdout 5 s after the end of the block
    skip("why")              ends before its first line of code, as an order by names does
    die("x", "y")            the kernel's process is killed, and the names x and y are lost
    crash("bug")             the runner itself fails, which is a bug and no outcome

The task of a `run_agent` block is played in the same way.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from codeact_kernel.blocks import (
    ClearOutput,
    CodeBlock,
    DisplayOutput,
    ErrorOutput,
    Job,
    Outcome,
    ResultOutput,
    StreamOutput,
)
from codeact_kernel.errors import KernelDied
from codeact_kernel.protocols import Watcher
from codeact_kernel.testing import clock

__all__ = ["FakeRunner"]


class FakeRunner:
    """A `Runner` for tests.

    Args:
        wall: The wall clock, in seconds since the epoch; the jumping loop's own unless told otherwise.
    """

    def __init__(self, wall: Callable[[], float] = clock.wall) -> None:
        self.wall = wall
        self.jobs: list[Job] = []
        """Every job that was run, in the order of `run`."""
        self.interrupts: list[tuple[str, float]] = []
        """Every interrupt: the job's id and the loop's time."""
        self.insistence: list[int] = []
        """And its insistence."""
        self.given_up: list[str] = []
        """The ids of the jobs whose `run` was cancelled."""
        self.playing: dict[str, _Play] = {}
        self.signals: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.count = 0

    async def run(self, job: Job, watcher: Watcher) -> Outcome:
        """Play a job's code to its end.

        Args:
            job: Its code is in the language of this module.
            watcher: Hears of its start and its outputs.

        Raises:
            KernelDied: If the code says so.
            ValueError: If the code is not in the language.
        """
        self.jobs.append(job)
        play = self.playing[job.id] = _Play(self, watcher)
        try:
            return await play.perform(job.block.code if isinstance(job.block, CodeBlock) else job.block.task)
        except asyncio.CancelledError:
            self.given_up.append(job.id)
            raise
        finally:
            del self.playing[job.id]

    async def interrupt(self, job_id: str, insistence: int = 0) -> None:
        """Interrupt a job: what it waits in ends with KeyboardInterrupt, unless it is deaf.

        Args:
            job_id: The job's id; one that has ended is no error.
            insistence: As in `Runner`; it makes no difference here.
        """
        self.interrupts.append((job_id, asyncio.get_running_loop().time()))
        self.insistence.append(insistence)
        play = self.playing.get(job_id)
        if play and not play.deaf:
            play.interrupted.set()

    def signal(self, name: str) -> None:
        """Let every `wait(name)` go on, now and later."""
        self.signals[name].set()


class _Interrupted(Exception):
    """What an interrupt raises inside a play."""


class _Ended(Exception):
    """What ends a play early, with its outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class _Play:
    """One job on the stage."""

    def __init__(self, runner: FakeRunner, watcher: Watcher) -> None:
        self.runner = runner
        self.watcher = watcher
        self.interrupted = asyncio.Event()
        self.deaf = False
        self.lane: str | None = None
        self.lates: list[tuple[float, str]] = []

    async def perform(self, code: str) -> Outcome:
        """Play the lines one after the other, and see to what comes after the end."""
        outcome = await self.lines(code)
        for seconds, text in self.lates:
            asyncio.get_running_loop().call_later(seconds, self.watcher.output, StreamOutput("stdout", text))
        return outcome

    async def lines(self, code: str) -> Outcome:
        """Play the lines one after the other."""
        verbs = _Verbs(self)
        try:
            for name, args, kwargs in _lines(code):
                if name not in ("queue", "skip"):
                    self.begin("main")
                played = getattr(verbs, name)(*args, **kwargs)
                if inspect.isawaitable(played):
                    await played
        except _Ended as end:
            return end.outcome
        except _Interrupted:
            return self.failed("KeyboardInterrupt", "")
        self.begin("main")
        return Outcome("ok", lane=self.lane, execution_count=self.runner.count)

    def begin(self, lane: str) -> None:
        """Come to the first line of code, once."""
        if self.lane is None:
            self.lane = lane
            self.runner.count += 1
            self.watcher.started(lane, self.runner.wall())

    def failed(self, ename: str, evalue: str) -> Outcome:
        """The outcome of an exception, and its output where code has run."""
        error = f"{ename}: {evalue}" if evalue else ename
        if self.lane is None:
            return Outcome("error", error)
        self.watcher.output(ErrorOutput(ename, evalue, (error,)))
        return Outcome("error", error, lane=self.lane, execution_count=self.runner.count)

    async def pause(self, event: asyncio.Event, seconds: float | None) -> None:
        """Wait for an event, a time or an interrupt, whichever comes first."""
        waits = {asyncio.ensure_future(event.wait()), asyncio.ensure_future(self.interrupted.wait())}
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self.interrupted.is_set() and not event.is_set():
            raise _Interrupted


class _Verbs:
    """The language. Each public method is a word of it, explained at the top of the module."""

    def __init__(self, play: _Play) -> None:
        self._play = play
        self._watcher = play.watcher

    async def queue(self, seconds: float, lane: str = "main") -> None:
        await self._play.pause(asyncio.Event(), seconds)
        self._play.begin(lane)

    def print(self, *values: object, err: bool = False, end: str = "\n") -> None:
        text = " ".join(str(value) for value in values) + end
        self._watcher.output(StreamOutput("stderr" if err else "stdout", text))

    async def sleep(self, seconds: float) -> None:
        await self._play.pause(asyncio.Event(), seconds)

    async def wait(self, name: str) -> None:
        await self._play.pause(self._play.runner.signals[name], None)

    def show(self, text: str, id: str | None = None, update: bool = False) -> None:  # noqa: A002
        self._watcher.output(DisplayOutput({"text/plain": text}, display_id=id, update=update))

    def value(self, text: str) -> None:
        self._watcher.output(ResultOutput({"text/plain": text}, execution_count=self._play.runner.count))

    def clear(self, wait: bool = False) -> None:
        self._watcher.output(ClearOutput(wait))

    def fail(self, ename: str, evalue: str = "") -> None:
        raise _Ended(self._play.failed(ename, evalue))

    def deaf(self) -> None:
        self._play.deaf = True

    def late(self, seconds: float, text: str) -> None:
        self._play.lates.append((seconds, text + "\n"))

    def skip(self, why: str) -> None:
        raise _Ended(Outcome("skipped", why))

    def die(self, *lost: str) -> None:
        raise KernelDied("The kernel was killed by signal 9 (SIGKILL).", returncode=-9, lost=lost)

    def crash(self, message: str) -> None:
        raise RuntimeError(message)


def _lines(code: str) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Read a play: the calls in it, with their literal arguments."""
    words = sorted(name for name in vars(_Verbs) if not name.startswith("_"))
    lines = []
    for line in ast.parse(code).body:
        match line:
            case ast.Expr(ast.Call(ast.Name(name), args, keywords)) if name in words:
                given = {word.arg or "": ast.literal_eval(word.value) for word in keywords}
                lines.append((name, tuple(ast.literal_eval(arg) for arg in args), given))
            case _:
                raise ValueError(
                    f"line {line.lineno} of a fake block is none of {', '.join(words)}: {code!r}"
                )
    return lines

"""One agent of a notebook, for as long as its conversation goes on.

Comes in: tasks with what belongs to them, notes, wishes to stop. Goes out: what the magic is told: what changed, for a
page; an output for all others, text for a terminal, and each run's end.
"""

from __future__ import annotations

import asyncio
import shutil
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codeact_kernel.agent import Agent, Run, load_settings
from codeact_kernel.errors import CodeactError, ConfigError
from codeact_kernel.events import Event
from codeact_kernel.lab.asking import Asking
from codeact_kernel.lab.cells import Cells
from codeact_kernel.lab.page import bundle
from codeact_kernel.lab.results import Results, key_of
from codeact_kernel.lab.sent import Sent
from codeact_kernel.lab.showing import Showing
from codeact_kernel.lab.telling import Teller
from codeact_kernel.tools import load_tools

Tell = Callable[[dict[str, Any]], None]
LIMITS = ("max_turns", "max_time", "max_tokens", "max_cost")
"""What holds for one run; all else holds for the agent."""
ENDING = 10.0
"""Seconds that another agent's end is waited for."""
RUNS = 20
"""Runs whose cells are kept for a page that comes later."""


@dataclass(frozen=True)
class Wanted:
    """One task, as the magic hands it over."""

    task: str
    """What the person wrote."""
    beside: str = ""
    """What the model is told besides."""
    options: dict[str, Any] = field(default_factory=dict)
    """As `Agent` takes them; only what somebody has said."""
    parcel: str | None = None
    """The file with what the agent's namespace gets."""
    names: tuple[str, ...] = ()
    cell: str | None = None
    """The id of the notebook's cell."""
    terminal: bool = False
    """Whether text is told, and no output is updated."""
    rerun: bool = False
    """Whether it is done though a run has answered the same before."""

    def key(self, workspace: Path, before: str) -> str:
        """What tells it from another task.

        Args:
            workspace: The folder in which blocks run.
            before: The key of the task before it in the same conversation.
        """
        return key_of(before, str(workspace), self.task, self.beside, self.options, parcel=self.parcel)


class Session:
    """An agent and its runs.

    Args:
        wanted: The first task.
        workspace: The folder in which blocks run.
        folder: Where what blocks hand back is put.
        tell: Tells the magic something.
        page: Whether some page shows what goes on.
        results: What runs have come to before.
        wall: The time in seconds since the epoch.
    """

    def __init__(
        self,
        wanted: Wanted,
        workspace: Path,
        folder: Path,
        tell: Tell,
        page: Callable[[], bool] = lambda: False,
        results: Results | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.options = {key: value for key, value in wanted.options.items() if key not in LIMITS}
        self.runs: dict[str, Showing] = {}
        self._keys: dict[str, str] = {}
        """The key of each run's task."""
        self.agent: Agent | None = None
        self.ended = False
        self.is_closing = False
        self.sent = Sent()
        self.asking = Asking(lambda: None if self._showing is None else self._showing.cells)
        self._workspace = workspace
        self._folder = folder
        self._tell = tell
        self._page = page
        self._wall = wall
        self._tasks: asyncio.Queue[tuple[Showing, Wanted] | None] = asyncio.Queue()
        self._showing: Showing | None = None
        self._returned: str | None = None
        self._notes: list[str] = []
        """What it shall hear once it has started."""
        self._settings = load_settings(workspace)
        self._results = Results() if results is None else results
        self._key = ""
        """Of the latest task."""
        self._past: str | None = None
        """The record of the last run that was known: from there it goes on."""
        self.has_begun = False
        """Whether there is something to do."""

    @property
    def is_working(self) -> bool:
        """Whether a run goes on."""
        return self._showing is not None or not self._tasks.empty()

    @property
    def showing(self) -> Showing | None:
        """What is shown of the latest run."""
        return next(reversed(self.runs.values()), None)

    def known(self, wanted: Wanted) -> dict[str, Any] | None:
        """What a run has come to that has answered the same, at the same place in a conversation; None for nothing.

        Args:
            wanted: The task.
        """
        if wanted.rerun or self.has_begun:
            return None
        found = self._results.find(wanted.key(self._workspace, self._key), self._folder)
        if found is not None:
            self._key, self._past = wanted.key(self._workspace, self._key), found["record"]
        return found

    def begin(self, wanted: Wanted) -> str:
        """Begin a run.

        Args:
            wanted: The task.

        Returns:
            Its key.

        Raises:
            ConfigError: If another one goes on, or the agent is not as this one wants it.
        """
        self.check(wanted)
        protocol = wanted.options.get("protocol") or self._settings.protocol
        key = f"ck-{uuid.uuid4().hex[:10]}"
        cells = Cells(key, wanted.task, protocol, lambda: self.runs[key].changed(), self._wall)
        self.runs[key] = Showing(cells, self._tell, self._page, wanted.cell, terminal=wanted.terminal)
        while len(self.runs) > RUNS:
            del self.runs[next(iter(self.runs))]
        self._tasks.put_nowait((self.runs[key], wanted))
        self._key, self.has_begun = wanted.key(self._workspace, self._key), True
        self._keys[key] = self._key
        return key

    def check(self, wanted: Wanted) -> None:
        """Whether this agent can take a task.

        Raises:
            ConfigError: If not; says why.
        """
        if self.is_working:
            raise ConfigError(
                'the agent is at work: %agent --steer "…" tells it something, --stop stops it, and --new starts '
                "another one"
            )
        for name, value in wanted.options.items():
            if name not in LIMITS and self.options.get(name) != value:
                option = f"{name.replace('_', '-')} {value}"
                raise ConfigError(f"this agent has begun without --{option}, and goes on as it is: add --new")

    def steer(self, text: str) -> None:
        """Tell the agent something; where it is still starting, it hears it then.

        Args:
            text: What it shall know.
        """
        if self.agent is None:
            self._notes.append(text)
        else:
            self.agent.steer(text)

    def stop(self) -> None:
        """End the run that goes on, or waits for the agent's start, with its blocks; the agent can go on."""
        if self.agent is not None:
            self.agent.stop()
        while not self._tasks.empty():
            if (task := self._tasks.get_nowait()) is not None:
                task[0].cells.put(state="stopped", ended=self._wall())
                self._ended(task[0], "cancelled", "", None)

    def close(self) -> None:
        """End the agent, with the run that goes on or waits for its start."""
        self.stop()
        self.is_closing = True
        self._tasks.put_nowait(None)

    async def live(self, others: Collection[asyncio.Task[None]] = ()) -> None:
        """Live: start the agent and do its tasks, one after the other, until `close`.

        Args:
            others: Lives that are ending; one of them may still hold the record that this one goes on with.
        """
        if self._past is not None and others:
            await asyncio.wait(others, timeout=ENDING)
        try:
            async with self._make() as self.agent:
                while (task := await self._tasks.get()) is not None:
                    await self._work(*task)
        except CodeactError as error:
            self._fail_all(error.message)
        except Exception as error:
            self._fail_all(_ours(error))
            raise
        finally:
            self.agent, self.ended = None, True

    # -- the agent's side ---------------------------------------------------------------------------------

    def __call__(self, event: Event) -> None:
        """Take an event; as `TreeObserver`."""
        if self._showing is not None:
            self._showing.cells(event)

    def of_agent(self, name: str) -> Teller:
        """Take those of a sub-agent; as `TreeObserver`."""
        assert self._showing is not None
        return self._showing.cells.of_agent(name)

    def _take(self, parcel: str) -> None:
        """Take what a block hands back; the last one counts."""
        place = str(self._folder / f"returned-{uuid.uuid4().hex[:10]}")
        shutil.copyfile(parcel, place)
        if self._returned is not None:
            Path(self._returned).unlink(missing_ok=True)
        self._returned = place

    async def _work(self, showing: Showing, wanted: Wanted) -> None:
        assert self.agent is not None
        self._showing, self._returned = showing, None
        limits: dict[str, Any] = {name: wanted.options.get(name) for name in LIMITS}
        async with showing:
            try:
                if wanted.parcel is not None:
                    await self.agent.seed(wanted.parcel, wanted.names)
                while self._notes:
                    self.agent.steer(self._notes.pop(0))
                run = await self.agent.run(wanted.task + wanted.beside, **limits)
            except CodeactError as error:
                self._fail(showing, error.message)
                return
            except Exception as error:  # ours: the cell that waits has to hear of it, and the log, too
                self._fail(showing, _ours(error))
                raise
            finally:
                self._showing = None
            self._ended(showing, run.stop, run.message, run)

    def _ended(self, showing: Showing, stop: str, message: str, run: Run | None) -> None:
        showing.finish()
        record = None if run is None or run.record is None else str(run.record)
        ran = [
            cell.block for cell in showing.cells.all if cell.block is not None and cell.started is not None
        ]
        at = ran[-1] if ran else None
        about: dict[str, Any] = {"stop": stop, "message": message, "answer": run and run.answer}
        about |= {"record": record, "at": at}
        objects = bool(self.options.get("returns_objects"))
        about |= {"run": showing.cells.run, "file": self._returned, "objects": objects}
        if stop == "answered" and record is not None:
            data = bundle(showing.cells, whole=True)
            self._results.keep(self._keys[showing.cells.run], {**about, "ended": self._wall(), "data": data})
        self._tell({"tell": "ended", **about})

    def _fail(self, showing: Showing, why: str) -> None:
        showing.cells.put(state="failed", text=why, ended=self._wall(), blocks=[])
        self._ended(showing, "failed", why, None)

    def _fail_all(self, why: str) -> None:
        """Tell all who wait that the agent did not start, or was lost."""
        while not self._tasks.empty():
            if (task := self._tasks.get_nowait()) is not None:
                self._fail(task[0], why)

    def _make(self) -> Agent:
        options = dict(self.options)
        env = tuple(options.get("env", ()))
        tools = [
            made
            for source in options.pop("tools", None) or ()
            for made in load_tools(
                source, self._workspace, (*self._settings.env, *env), self._settings.search
            )
        ]
        options |= {"tools": tools, "settings": self._settings, "returns": self._take, "observers": [self]}
        options |= {"approver": self.asking, "hooks": [self.sent]}
        if self._past is not None:
            return Agent.resume(Path(self._past).parent, **options)
        return Agent(**options, workspace=self._workspace)


def _ours(error: Exception) -> str:
    return f"a fault of codeact-kernel: {type(error).__name__}: {error}"

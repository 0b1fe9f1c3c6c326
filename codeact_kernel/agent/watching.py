"""A run as it looks from outside, whoever works on it.

Comes in: a run's folder. Goes out: `WatchedRun`, the tree of its agents with what each of them has alive, as the
journals tell it. Nothing is written and nothing of the past is kept: figures, live blocks, sub-agents at work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from codeact_kernel.agent.recording import JOURNAL
from codeact_kernel.agent.runlock import holder
from codeact_kernel.blocks import AgentBlock, ClearOutput, Output
from codeact_kernel.controls import shown
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import (
    Appended,
    ApprovalAsked,
    BlockChanged,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Decided,
    Event,
    ModelRetry,
    ModelUsed,
    Reply,
    RunEnded,
    RunResumed,
    RunStarted,
    Spent,
    TurnStarted,
    WakeUpEnded,
    WakeUpSet,
)
from codeact_kernel.messages import Usage
from codeact_kernel.record import AGENTS, JournalFollower, slug
from codeact_kernel.supervisor import LiveBlock
from codeact_kernel.supervisor.output import as_text

LOOK = 1.0
"""Seconds between two looks at who works on a run."""
_TAIL = 400
"""Characters of a block's output that are kept, for its last line."""


class WatchedAgent:
    """An agent, as its journal tells of it.

    Args:
        folder: Where its record is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start: RunStarted | None = None
        """Of its last run; None while nothing has come."""
        self.now: RunStarted | RunResumed | None = None
        """What tells of the model and the kernel as they are now."""
        self.end: RunEnded | None = None
        self.turn = self.turns = 0
        """The number of the last turn, and how many this run has had."""
        self.usage = Usage()
        """What it has used over all its runs, that of sub-agents that have ended included."""
        self.spent: Spent | None = None
        """What the run has used with all that is below it; a root's only."""
        self.context_tokens = 0
        self.window: int | None = None
        self.asked: float | None = None
        """Since when the model is asked."""
        self.trouble = ""
        """Why it has to be asked again."""
        self.wake_ups: dict[str, WakeUpSet] = {}
        self.live: dict[str, LiveBlock] = {}
        """Blocks that run or wait, sub-agents among them."""
        self.below: dict[str, WatchedAgent] = {}
        """Sub-agents whose journals have not come to an end, by the names of their folders."""
        self.gone = 0
        """Sub-agents that have ended."""
        self._tails: dict[str, str] = {}
        self._known: set[str] = set()
        self._follower = JournalFollower(folder / JOURNAL, self._take)

    def poll(self) -> bool:
        """Take what has come, here and below.

        Returns:
            Whether there may be more already.

        Raises:
            RecordError: If a journal cannot be read.
        """
        more = self._follower.poll()
        for folder in self._new_folders():
            self.below[folder.name] = WatchedAgent(folder)
        for name, agent in list(self.below.items()):
            more = agent.poll() or more
            if agent.end is not None:
                del self.below[name]
                self.gone += 1
        return more

    def _new_folders(self) -> list[Path]:
        """Those of sub-agents that were not there before. A link is none: it might lead back up."""
        agents, new = self.folder / AGENTS, list[Path]()
        with suppress(OSError):
            if not agents.is_symlink():
                new = sorted(path for path in agents.iterdir() if path.name not in self._known)
        self._known |= {path.name for path in new}
        return [path for path in new if path.is_dir() and not path.is_symlink()]

    def _take(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.start, self.now, self.end, self.spent, self.turns = event, event, None, None, 0
            case RunResumed():
                self.now, self.end = event, None
                self.live.clear()
            case RunEnded():
                self.end, self.asked = event, None
                self.live.clear()
                self.wake_ups.clear()
            case TurnStarted():
                self.turns += event.turn != self.turn or not self.turns
                self.turn, self.asked, self.trouble = event.turn, event.at, ""
                self.context_tokens, self.window = event.context_tokens, event.window
            case ModelRetry():
                self.trouble = event.reason
            case Appended(entry=Reply() as reply):
                self.asked, self.trouble = None, ""
                self.usage += reply.usage
            case ModelUsed():
                self.usage += event.usage
            case Spent():
                self.spent = event
            case WakeUpSet():
                self.wake_ups[event.id] = event
            case WakeUpEnded():
                self.wake_ups.pop(event.id, None)
            case _:
                self._take_of_block(event)

    def _take_of_block(self, event: Event) -> None:
        match event:
            case BlockQueued():
                self.live[event.id] = LiveBlock(
                    event.id, event.block, event.turn, "waiting", event.at, None, None, None, ""
                )
            case BlockChanged():
                self._change(event.id, block=event.block)
            case ApprovalAsked() if event.block_id is not None:
                self._change(event.block_id, state="waiting for approval")
            case Decided() if event.block_id is not None:
                started = event.block_id in self.live and self.live[event.block_id].started is not None
                self._change(event.block_id, state="running" if started else "waiting")
            case BlockStarted():
                self._change(event.id, state="running", started=event.at, lane=event.lane)
            case BlockOutput() if event.id in self.live:
                self._tails[event.id] = _tail(self._tails.get(event.id, ""), event.output)
            case BlockFinished():
                self.live.pop(event.result.id, None)
                self._tails.pop(event.result.id, None)
                self.usage += event.result.outcome.usage
            case _:
                pass

    def _change(self, block_id: str, **changes: object) -> None:
        if block_id in self.live:
            self.live[block_id] = replace(self.live[block_id], **changes)  # type: ignore[arg-type]

    @property
    def blocks(self) -> list[LiveBlock]:
        """The blocks that run or wait, each with its last line."""
        return [
            replace(block, last_line=_last_line(self._tails.get(block.id, "")))
            for block in self.live.values()
        ]

    @property
    def at_work(self) -> dict[str, WatchedAgent]:
        """Sub-agents at work, by their names: those whose blocks live, so none that an earlier process has left."""
        names = {
            slug(block.id): block.id for block in self.live.values() if isinstance(block.block, AgentBlock)
        }
        return {names[folder]: agent for folder, agent in self.below.items() if folder in names}


class WatchedRun:
    """A run, followed from outside.

    Args:
        folder: Its folder.
        wall: The time in seconds since the epoch.
    """

    def __init__(self, folder: Path, wall: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.agent = WatchedAgent(folder)
        self.pid: int | None = None
        """The process that works on it; None where none does."""
        self.is_over = False
        """Whether nothing more will come: it has ended, or was broken off, and no process works on it."""
        self.heard = 0.0
        """When its journal was last written."""
        self._wall = wall
        self._looked = float("-inf")

    def poll(self) -> bool:
        """Take what has come; as `WatchedAgent.poll`."""
        if self.agent.poll():
            return True
        now = self._wall()
        if abs(now - self._looked) >= LOOK:
            self._looked = now
            self.pid = holder(self.folder)
            with suppress(OSError):
                self.heard = (self.folder / JOURNAL).stat().st_mtime
            if self.pid is None:
                while self.agent.poll():  # what was written before its process went
                    pass
                self.is_over = True
        return False

    @property
    def state(self) -> str:
        """How it stands: "running", "crashed", or why it has ended."""
        if self.agent.end is not None:
            return self.agent.end.stop
        return "crashed" if self.is_over else "running"

    @property
    def seconds(self) -> float:
        """How long it has been at work."""
        agent = self.agent
        if agent.now is None:
            return 0.0
        until = agent.end.at if agent.end else self.heard if self.is_over else self._wall()
        before = agent.now.worked if isinstance(agent.now, RunResumed) else 0.0
        return before + until - agent.now.at

    @property
    def usage(self) -> Usage:
        """What the run has used, all its agents together."""
        agent = self.agent
        if agent.end is not None:
            return agent.end.usage
        return agent.usage if agent.spent is None else agent.spent.usage


def find_run(run: Path | None, workspace: Path) -> Path:
    """The folder of a run.

    Args:
        run: Its folder or its notebook; None for the workspace's latest.
        workspace: The folder in which it works.

    Raises:
        ConfigError: If there is none.
    """
    if run is not None:
        folder = run.parent if run.suffix == ".ipynb" else run
        if not (folder / JOURNAL).is_file():
            raise ConfigError(f"there is no run in {folder}: {JOURNAL} is missing")
        return folder
    journals = (workspace / ".codeact" / "runs").glob(f"*/{JOURNAL}")
    latest = max(journals, key=lambda path: path.stat().st_mtime, default=None)
    if latest is None:
        raise ConfigError(f"there is no run in {workspace} yet; name one")
    return latest.parent


def _tail(before: str, output: Output) -> str:
    """The end of what a block has put out. Cut off at its beginning only: what is shown of it is cleaned then."""
    if isinstance(output, ClearOutput):
        return ""
    return (before + as_text([output])[-_TAIL:])[-_TAIL:]


def _last_line(tail: str) -> str:
    return next((line.strip() for line in reversed(shown(tail).splitlines()) if line.strip()), "")

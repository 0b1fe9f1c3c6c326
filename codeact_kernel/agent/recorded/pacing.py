"""Keeps a replay in step with what was recorded: what had ended before a reply ends before it again.

Comes in: a recorded run; the events of the one that replays it. Goes out: a hook that holds each reply back until then,
and goes on after an answer as long as the record does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from codeact_kernel.agent.hooks import Hooks
from codeact_kernel.agent.recorded.run import RecordedRun
from codeact_kernel.events import Appended, BlockFinished, BlockQueued, Event, Reply, TurnStarted
from codeact_kernel.messages import ModelRequest

GOES_ON = "The record goes on."
"""What a replayed model reads where it would have stopped and the recorded one did not."""


class Pace(Hooks):
    """A hook and a listener of one agent.

    Args:
        recorded: What is replayed.
        before: The turn before which the replay ends, where another model goes on; None for all of it.
    """

    def __init__(self, recorded: RecordedRun, before: int | None = None) -> None:
        self._left = deque(_course(recorded, before))
        """Of each reply that is still to come its run, and what had ended since the one before was asked for."""
        self._run = 0
        """The run of the last one that has come."""
        self.is_over = False
        """Whether a reply was asked for that is not to be replayed."""
        self._live: set[str] = set()
        self._is_asked = False
        self._said = ""
        self._news = asyncio.Event()

    def __call__(self, event: Event) -> None:
        """Take an event."""
        match event:
            case TurnStarted():
                self._is_asked = True
            case BlockQueued():
                self._live.add(event.id)
            case BlockFinished():
                self._live.discard(event.result.id)
                self._news.set()
            case Appended(entry=Reply() as reply):
                self._said = reply.text
            case _:
                pass

    async def before_model_call(self, request: ModelRequest) -> None:  # type: ignore[override]
        """Wait for what had ended by now."""
        if not self._is_asked:
            return
        self._is_asked = False
        if not self._left:
            self.is_over = True
            return
        self._run, ended = self._left.popleft()
        while self._live & ended:
            self._news.clear()
            await self._news.wait()

    def end(self) -> None:
        """Nothing more is replayed."""
        self._left.clear()
        self.is_over = True

    def on_stop(self, answer: str) -> str | None:
        """Go on where the record does: what was said while a block ran may come after its end now."""
        is_own = self._said.strip() == answer.strip()
        return GOES_ON if is_own and self._left and self._left[0][0] == self._run else None


def _course(recorded: RecordedRun, before: int | None) -> Iterator[tuple[int, set[str]]]:
    ends = deque(sorted((block.result.ended, block.id) for block in recorded.blocks if block.result))
    for run in recorded.transcript.runs:
        for turn in run.turns:
            if turn.reply and (before is None or turn.number < before):
                ended = set()
                while ends and ends[0][0] <= turn.started:
                    ended.add(ends.popleft()[1])
                yield run.number, ended

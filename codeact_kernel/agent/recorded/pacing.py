"""Keeps a replay in step with what was recorded: what had ended before a reply ends before it again.

Comes in: a recorded run; the events of the one that replays it. Goes out: a hook that holds each reply back until then,
and goes on after an answer as long as the record does.
"""

from __future__ import annotations

import asyncio

from codeact_kernel.agent.hooks import Hooks
from codeact_kernel.agent.recorded.run import RecordedRun
from codeact_kernel.events import Appended, BlockFinished, BlockQueued, Event, Reply, TurnStarted
from codeact_kernel.messages import ModelRequest

GOES_ON = "The record goes on."
"""What a replayed model reads where it would have stopped and the recorded one did not."""


class Pace(Hooks):
    """A hook, and an observer of the same agent.

    Its sub-agents have the hook, too, and not the observer: so they are told apart.

    Args:
        recorded: What is replayed.
        before: The turn before which the replay ends, where another model goes on; None for all of it.
    """

    def __init__(self, recorded: RecordedRun, before: int | None = None) -> None:
        turns = [turn for turn in recorded.turns if turn.reply and (before is None or turn.number < before)]
        self._left = [
            {b.id for b in recorded.blocks if b.result and b.result.ended <= turn.started} for turn in turns
        ]
        """Of each reply that is still to come, what had ended before it was asked for."""
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
        ended = self._left.pop(0)
        while self._live & ended:
            self._news.clear()
            await self._news.wait()

    def on_stop(self, answer: str) -> str | None:
        """Go on where the record does: what was said while a block ran may come after its end now."""
        is_own = self._said.strip() == answer.strip()
        return GOES_ON if is_own and self._left else None

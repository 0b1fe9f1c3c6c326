"""Wake-ups: the run sleeps, at no cost, until the time that the model has set.

Comes in: wishes of blocks to be woken. Goes out: notes for the model, when it is time. What is pending stands in the
transcript, by the wall clock, so that it outlives the process.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from codeact_kernel.agent.inbox import Inbox, Note
from codeact_kernel.blocks import format_duration, parse_duration
from codeact_kernel.errors import ToolError
from codeact_kernel.events import Event, WakeUpEnded, WakeUpSet
from codeact_kernel.transcript import Transcript

LOOK = 30.0
"""Seconds after which the wall clock is looked at again: after a sleep of the machine the run is that late at most."""
SENDER = "wake-up"
LATE = 60.0
"""Seconds past its time from which a wake-up says that it is late."""


class WakeUps:
    """The wake-ups of an agent.

    Args:
        transcript: Has those that are pending.
        inbox: Where the model hears of them.
        emit: Gets the events.
        wall: The time in seconds since the epoch.
    """

    def __init__(
        self,
        transcript: Transcript,
        inbox: Inbox,
        emit: Callable[[Event], None],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._transcript = transcript
        self._inbox = inbox
        self._emit = emit
        self._wall = wall
        self._numbers = itertools.count(1)
        self._timer: asyncio.TimerHandle | None = None
        self._ticks = False
        self._latest: dict[str, float] = {}
        """By id when it is time by the loop's clock, which nobody sets back."""

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """As long as a run goes on: what is due meanwhile comes. Between runs wake-ups stay pending."""
        self._ticks = True
        self._look()
        try:
            yield
        finally:
            self._ticks = False
            self._stop()

    @property
    def methods(self) -> dict[str, Callable[..., Any]]:
        """What `self.…` calls, by full name."""
        return {"self.wake_in": self.wake_in, "self.wake_ups": self.told}

    @property
    def pending(self) -> list[WakeUpSet]:
        """Those that have not come, the next one first."""
        return sorted(self._transcript.wake_ups.values(), key=lambda wake_up: wake_up.due)

    @property
    def lines(self) -> tuple[str, ...]:
        """What an inventory says of them."""
        now = self._wall()
        told = [f"- {w.id} in {format_duration(max(0.0, w.due - now))}: {w.note}" for w in self.pending]
        return ("\n".join(["Wake-ups to come:", *told]),) if told else ()

    async def wake_in(self, after: Any, note: Any = "") -> str:
        """Set one.

        Args:
            after: In how long: "2h", or seconds.
            note: What the model wants to be told then.

        Returns:
            Its id.

        Raises:
            ToolError: If that is no duration.
        """
        try:
            seconds = parse_duration(str(after))
        except ValueError as error:
            raise ToolError(str(error)) from None
        pending = self._transcript.wake_ups
        name = next(name for number in self._numbers if (name := f"wake-{number}") not in pending)
        now = self._wall()
        self._emit(WakeUpSet(name, str(note), now + seconds, now))
        self._look()
        return name

    async def told(self) -> list[dict[str, Any]]:
        """What `self.wake_ups` tells."""
        now = self._wall()
        return [{"id": w.id, "note": w.note, "left": round(max(0.0, w.due - now), 1)} for w in self.pending]

    def cancel(self, name: str) -> bool:
        """Take one back.

        Args:
            name: Its id.

        Returns:
            Whether there was one.
        """
        if name not in self._transcript.wake_ups:
            return False
        self._emit(WakeUpEnded(name, False, self._wall()))
        self._look()
        return True

    def take_back(self, name: str) -> bool:
        """As `cancel`, for a reply: of which something has to come, since it waits for it."""
        done = self.cancel(name)
        if done:
            self._inbox.put(Note(SENDER, f"{name} is taken back."))
        return done

    def _look(self) -> None:
        """Wake for what is due, and look again when the next one is."""
        self._stop()
        if not self._ticks:
            return
        now = self._wall()
        for wake_up in self._due(now):
            self._emit(WakeUpEnded(wake_up.id, True, now))
            self._inbox.put(Note(SENDER, _note(wake_up, now)))
        if pending := self.pending:
            wait = min(LOOK, max(0.0, pending[0].due - now))
            self._timer = asyncio.get_running_loop().call_later(wait, self._look)

    def _due(self, now: float) -> list[WakeUpSet]:
        """Those that are due by one of two clocks: one may be set back, the other rests while the machine sleeps."""
        pending, loop = self.pending, asyncio.get_running_loop().time()
        self._latest = {w.id: self._latest.get(w.id, loop + w.due - now) for w in pending}
        return [w for w in pending if w.due <= now or self._latest[w.id] <= loop]

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _note(wake_up: WakeUpSet, now: float) -> str:
    late = now - wake_up.due
    about = f", {format_duration(late)} late" if late >= LATE else ""
    set_for = format_duration(wake_up.due - wake_up.at)
    return f"{wake_up.note or 'It is time.'} ({wake_up.id}, set for {set_for}{about})"

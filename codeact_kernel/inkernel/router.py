"""Which request runs when, and in which lane.

Comes in: accepted requests, ends of requests, interrupts. Goes out: requests handed to lanes, and requests
that will not run because what they wait for failed or because somebody cancelled them.

The rules, in order:

- A request of an ordinary client waits for the one before it (clients expect a queue, and an error empties it).
- Within one reply of the model, a block that needs a name waits for the last earlier block of that reply that
  makes it. If that block fails, the waiting one is skipped.
- A block that needs a name which does not exist yet waits for a live block, of any reply, that makes it.
- A request that came with `held` has its place from then on, and does not start before it is admitted. Where it is
  refused, what waits for it is skipped, and so is what comes later in the same reply and needs what it would have made.
- `order: "free"` in the request's metadata turns both off.
- What may start goes to the async lane if it has top-level await (or calls what needs a running loop), to the
  main lane if that is free or the request is pinned there, else to a worker.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from codeact_kernel.inkernel.lanes import Lane
from codeact_kernel.inkernel.request import Request
from codeact_kernel.inkernel.threads import interrupt_threads

EARLY = 1000
"""How many interrupts of requests that are not known (not yet, or no longer) are remembered."""
RACES = 5
"""Names, and other blocks, that a warning of a race tells."""
BEFORE = "it was cancelled before it started"
REFUSED = "it was refused"
KEPT = 100
"""How many requests that did not run are remembered, for those of the same reply that come later."""


Decision = Callable[[Request], None]


@dataclass
class _Refused:
    """What is remembered of a request that was refused, or skipped."""

    reply: Any
    place: int
    label: str
    makes: set[str]
    """What it would have made, and nothing else has made since."""


class Router:
    """Keeps the accepted requests and starts each when it may start.

    Args:
        lanes: The lanes by name: "main", "async", "worker".
        knows: Whether a name exists in the namespace or among the builtins.
        drop: Answers a request that will not run: (request, status, reason).
    """

    def __init__(
        self,
        lanes: dict[str, Any],
        knows: Callable[[str], bool],
        drop: Callable[[Request, str, str], None],
    ) -> None:
        self._lanes: dict[str, Lane] = lanes
        self._knows = knows
        self._drop = drop
        self._lock = threading.RLock()
        self._live: dict[str, Request] = {}
        self._on_main = 0
        self._main_is_lost = False
        """Whether main is held by code that counts as ended."""
        self._early: deque[str] = deque(maxlen=EARLY)
        self._decided: dict[str, Decision] = {}
        """What was decided about requests that have not come yet."""
        self._refused: deque[_Refused] = deque(maxlen=KEPT)
        self._places = itertools.count()

    def accept(self, request: Request) -> None:
        """Take a request; it starts at once or when what it waits for has ended.

        Args:
            request: The request, with its names read.
        """
        with self._lock:
            request.place = next(self._places)
            cancelled = request.msg_id in self._early
            lacks = self._lacks(request)
            if not cancelled and not lacks:
                self._find_waits(request)
                self._warn_of_races(request)
                self._live[request.msg_id] = request
                if not request.waits and not request.held:
                    self._place(request)
            decided = self._decided.pop(request.msg_id, None)
        if cancelled:
            self._drop(request, "cancelled", BEFORE)
        elif lacks:
            self._refuse(request, "skipped", lacks)
        elif decided is not None:
            decided(request)

    def admit(self, msg_id: str, change: Callable[[Request], None] | None = None) -> None:
        """Let a held request run when its turn has come. Control messages overtake: it may not even have come yet.

        Args:
            msg_id: The message id of the request.
            change: Gives it other code, and reads the names of that; None leaves it as it is.
        """
        self._decide(msg_id, partial(self._admit, change=change))

    def refuse(self, msg_id: str) -> None:
        """Answer a held request, which will not run.

        Args:
            msg_id: The message id of the request.
        """
        self._decide(msg_id, lambda request: self._refuse(request, "rejected", REFUSED))

    def _decide(self, msg_id: str, decision: Decision) -> None:
        with self._lock:
            request = self._live.get(msg_id)
            if request is None:
                self._decided[msg_id] = decision
                if len(self._decided) > EARLY:
                    del self._decided[next(iter(self._decided))]
        if request is not None:
            decision(request)

    def _admit(self, request: Request, change: Callable[[Request], None] | None) -> None:
        if change is not None:
            change(request)
        with self._lock:
            if request.msg_id not in self._live or not request.held:
                return
            request.held = False
            if change is not None:
                request.waits.clear()
                request.waited.clear()
                self._find_waits(request)
            if not request.waits:
                self._place(request)

    def _refuse(self, request: Request, status: str, reason: str) -> None:
        with self._lock:
            if not request.held and status == "rejected":
                return
            self._live.pop(request.msg_id, None)
            self._remember(request)
        self._drop(request, status, reason)

    def _remember(self, request: Request) -> None:
        """Note that a request will not make what it would have made."""
        if request.names is not None:
            makes = set(request.names.makes)
            self._refused.append(_Refused(request.meta.get("reply"), request.place, request.label, makes))

    def leaves(self, request: Request) -> None:
        """Take note that a request's code has ended, before its client hears of it and sends the next.

        Args:
            request: What has only its reply left to send.
        """
        with self._lock:
            self._on_main -= request.lane == "main"
            self._main_is_lost &= request.lane != "main"

    def ended(self, request: Request, ok: bool) -> None:
        """Take the end of a request and start what waited for it.

        Args:
            request: What ended.
            ok: Whether it ended well.
        """
        dropped: list[tuple[Request, str, str]] = []
        with self._lock:
            self._live.pop(request.msg_id, None)
            if ok:
                self._made_after_all(request)
            for other in list(self._live.values()):
                name = other.waits.pop(request.msg_id, None)
                if name is None:
                    continue
                reason = self._no_longer(other, request, name, ok)
                if reason:
                    del self._live[other.msg_id]
                    if reason[0] == "skipped":
                        self._remember(other)
                    dropped.append((other, *reason))
                elif not other.waits and not other.held:
                    self._place(other)
        for what in dropped:
            self._drop(*what)

    def cut_off(self, request: Request) -> None:
        """Take note that a request will count as ended while its code goes on: its lane serves others no more.

        Args:
            request: The request.
        """
        with self._lock:
            self._main_is_lost |= request.lane == "main"

    def interrupt(self, msg_id: str, *, insisting: bool = False) -> Request | None:
        """Interrupt one request; one that has not started will not run.

        Control messages overtake those of the shell channel: one that has not even come yet will not run
        either.

        Args:
            msg_id: The message id of the request.
            insisting: Whether the interrupt comes again until its code has ended, whatever that catches.

        Returns:
            The request, if it is known and has not ended.
        """
        with self._lock:
            request = self._live.get(msg_id)
            if request is None:
                self._early.append(msg_id)
                return None
            lane = request.lane
            waiting = lane is None and self._live.pop(request.msg_id, None) is not None
            request.interrupted = True
            request.insisted_on |= insisting
        if waiting:
            self._drop(request, "cancelled", BEFORE)
        elif lane is not None and request.ended is None:
            interrupt_threads(request, insisting=insisting)
            self._lanes[lane].interrupt(request, insisting=insisting)
        return request

    def find(self, msg_id: str) -> Request | None:
        """The request of that id, if it has not ended.

        Args:
            msg_id: The message id of the request.
        """
        with self._lock:
            return self._live.get(msg_id)

    @property
    def live(self) -> list[Request]:
        """The requests that were accepted and have not ended, oldest first."""
        with self._lock:
            return list(self._live.values())

    def _find_waits(self, request: Request) -> None:
        if request.block_id is None:
            queue = [other for other in self._live.values() if other.block_id is None]
            if queue:
                request.waits[queue[-1].msg_id] = ""
            return
        if request.meta.get("order") == "free" or request.names is None:
            return
        for name in sorted(request.names.needs):
            maker = self._maker(request, name)
            if maker is not None:
                request.waits.setdefault(maker.msg_id, name)
                request.waited.append((name, maker.label))

    def _maker(self, request: Request, name: str) -> Request | None:
        same_reply = request.meta.get("reply")
        exists = self._knows(name)
        before = list(itertools.takewhile(lambda other: other is not request, self._live.values()))
        for other in reversed(before):
            if other.names is None or name not in other.names.makes:
                continue
            if not exists or (other.block_id is not None and other.meta.get("reply") == same_reply):
                return other
        return None

    def _lacks(self, request: Request) -> str:
        """Why a request is skipped that needs what a refused one of its reply would have made; else empty."""
        if request.block_id is None or request.meta.get("order") == "free" or request.names is None:
            return ""
        reply = request.meta.get("reply")
        for refused in self._refused:
            for name in sorted(request.names.needs & refused.makes if refused.reply == reply else ()):
                maker = self._maker(request, name)
                if maker is None or maker.place < refused.place:
                    return f"it needs {name}, and {refused.label}, which makes it, did not run"
        return ""

    def _made_after_all(self, request: Request) -> None:
        """Take that what a refused request would have made was made by one that came after it."""
        for refused in self._refused:
            if request.names is not None and request.place > refused.place:
                refused.makes -= request.names.makes

    def _warn_of_races(self, request: Request) -> None:
        if request.block_id is None or request.names is None:
            return
        names: set[str] = set()
        others = []
        for other in self._live.values():
            both = request.names.makes & other.names.makes if other.names is not None else set()
            if both and other.msg_id not in request.waits:
                names |= both
                others.append(other.label)
        if others:
            shown = ", ".join(sorted(names)[:RACES])
            who = f"{others[0]} was" if len(others) == 1 else f"{', '.join(others[:RACES])} were"
            request.notes.append(
                f"{who} running too, where {shown} is assigned as well: all share one namespace"
            )

    def _no_longer(self, waiting: Request, request: Request, name: str, ok: bool) -> tuple[str, str] | None:
        """Why a request does not run now that what it waited for has ended: (status, reason)."""
        if ok:
            return None
        if waiting.block_id is None:
            return ("aborted", "a cell before it failed") if request.stop_on_error else None
        if name and self._knows(name) and request.meta.get("reply") != waiting.meta.get("reply"):
            return None
        return ("skipped", f"it needs {name}, and {request.label}, which makes it, did not end well")

    def _place(self, request: Request) -> None:
        pinned = request.meta.get("lane")
        if pinned == "main" and self._main_is_lost:
            request.notes.append(
                "it ran in a worker: code that was stopped, and did not end, holds the main thread"
            )
            pinned = None
        if pinned in self._lanes and not (request.is_async and pinned != "async"):
            lane = pinned
        elif request.is_async or (request.names is not None and request.names.calls_loop):
            lane = "async"
        elif self._on_main == 0:
            lane = "main"
        else:
            lane = "worker"
        request.lane = lane
        self._on_main += lane == "main"
        self._lanes[lane].submit(request)

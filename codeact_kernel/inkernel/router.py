"""Which request runs when, and in which lane.

Comes in: accepted requests, ends of requests, interrupts. Goes out: requests handed to lanes, and requests
that will not run because what they wait for failed or because somebody cancelled them.

The rules, in order:

- A request of an ordinary client waits for the one before it (clients expect a queue, and an error empties it).
- Within one reply of the model, a block that needs a name waits for the last earlier block of that reply that
  makes it. If that block fails, the waiting one is skipped.
- A block that needs a name which does not exist yet waits for a live block, of any reply, that makes it.
- `order: "free"` in the request's metadata turns both off.
- What may start goes to the async lane if it has top-level await (or calls what needs a running loop), to the
  main lane if that is free or the request is pinned there, else to a worker.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from codeact_kernel.inkernel.lanes import Lane
from codeact_kernel.inkernel.request import Request
from codeact_kernel.inkernel.threads import interrupt_threads

EARLY = 1000
"""How many interrupts of requests that are not known (not yet, or no longer) are remembered."""
RACES = 5
"""Names, and other blocks, that a warning of a race tells."""
BEFORE = "it was cancelled before it started"


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

    def accept(self, request: Request) -> None:
        """Take a request; it starts at once or when what it waits for has ended.

        Args:
            request: The request, with its names read.
        """
        with self._lock:
            cancelled = request.msg_id in self._early
            if not cancelled:
                self._find_waits(request)
                self._warn_of_races(request)
                self._live[request.msg_id] = request
                if not request.waits:
                    self._place(request)
        if cancelled:
            self._drop(request, "cancelled", BEFORE)

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
            for other in list(self._live.values()):
                name = other.waits.pop(request.msg_id, None)
                if name is None:
                    continue
                reason = self._no_longer(other, request, name, ok)
                if reason:
                    del self._live[other.msg_id]
                    dropped.append((other, *reason))
                elif not other.waits:
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
        for other in reversed(self._live.values()):
            if other.names is None or name not in other.names.makes:
                continue
            if not exists or (other.block_id is not None and other.meta.get("reply") == same_reply):
                return other
        return None

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

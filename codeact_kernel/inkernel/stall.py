"""Notices that a request holds the async lane: its synchronous code keeps all others there from going on.

Comes in: each request for the lane. Goes out: word of who holds it and whom it keeps waiting, once it has done so for
some seconds, and word of its end. As long as there are requests on the lane its loop is asked twice a second for a
sign of life; the guard of its thread knows whose code runs there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from codeact_kernel.inkernel.lanes import Home
from codeact_kernel.inkernel.request import Request

LOOK = 0.5
"""Seconds between two looks."""
PATIENCE = 2.0
"""Seconds of synchronous code that are nobody's business."""

Tell = Callable[[Request | None, list[Request], float], None]


class StallWatch:
    """Watches the async lane.

    Args:
        home: Gives the lane's thread and loop.
        live: Gives the requests that have not ended.
        tell: Told of a request that holds the lane, of those that it keeps waiting, and for how many seconds it has;
            later of nobody, with the same ones.
        later: Calls a function after so many seconds, in another thread.
    """

    def __init__(
        self,
        home: Callable[[], Home],
        live: Callable[[], list[Request]],
        tell: Tell,
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._home = home
        self._live = live
        self._tell = tell
        self._later = later
        self._lock = threading.Lock()
        self._looking = False
        self._asked: tuple[Home, float] | None = None
        """Which loop was asked for a sign of life that has not come, and when."""
        self._held: list[Request] = []

    def attend(self) -> None:
        """Take note that there is a request for the lane."""
        with self._lock:
            if self._looking:
                return
            self._looking = True
        self._later(LOOK, self._look)

    def _look(self) -> None:
        home = self._home()
        with self._lock:
            live = [request for request in self._live() if request.home is home]
            if self._asked is not None and self._asked[0] is not home:
                # The lane has moved: what is left behind there goes its own way, its deadlines included.
                self._hear()
            self._looking = bool(live)
            if not live:
                return
            if self._asked is None:
                self._asked = home, time.monotonic()
                home.loop.call_soon_threadsafe(self._sign)
            elif not self._held:
                self._judge(home, live, time.monotonic() - self._asked[1])
        self._later(LOOK, self._look)

    def _judge(self, home: Home, live: list[Request], seconds: float) -> None:
        holder = next((request for request in live if home.guard.is_open_for(request)), None)
        others = [request for request in live if request is not holder]
        if seconds >= PATIENCE and holder is not None and others:
            self._held = others
            self._tell(holder, others, seconds)

    def _sign(self) -> None:
        with self._lock:
            self._hear()

    def _hear(self) -> None:
        self._asked = None
        held, self._held = self._held, []
        if held:
            self._tell(None, held, 0.0)

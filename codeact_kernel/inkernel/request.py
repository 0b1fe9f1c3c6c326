"""One execute request: what was asked, what became of it, and who is current.

Comes in: an `execute_request` message. Goes out: `Request`, which the router, the lanes, the shell and the
streams share, and `current`, which tells any code whose request it runs for. Everything that stock ipykernel
keeps once per kernel and that two requests would fight over is kept here, once per request.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codeact_kernel.inkernel import wire

if TYPE_CHECKING:
    from codeact_kernel.inkernel.guard import Guard
    from codeact_kernel.inkernel.guarded import GuardedCoroutine
    from codeact_kernel.inkernel.lanes import Home
    from codeact_kernel.inkernel.names import Names
    from codeact_kernel.inkernel.outbox import Outbox
    from codeact_kernel.inkernel.processes import Process

current: contextvars.ContextVar[Request | None] = contextvars.ContextVar("codeact_request", default=None)
"""Whose code runs here. Tasks inherit it from the code that made them, threads are given it at their start."""


@dataclass(eq=False)
class Capture:
    """Where a block's output goes while it is redirected."""

    streams: dict[str, Any]
    """By "stdout" or "stderr" the file that takes it."""
    outputs: list[dict[str, Any]] | None = None
    """Takes displays and results, where those are captured, too."""


@dataclass(eq=False)
class Plotting:
    """What pyplot and its inline backend keep."""

    managers: OrderedDict[Any, Any] = field(default_factory=OrderedDict)
    """Figure managers by number."""
    to_draw: list[Any] = field(default_factory=list)
    draw_called: bool = False
    """Whether there is something to draw at the end."""


@dataclass(eq=False)
class Request:
    """An accepted execute request."""

    idents: list[bytes]
    parent: dict[str, Any]
    outbox: Outbox

    transformed: str = ""
    """The code after IPython's transform, or as it was where that failed."""
    transform_error: Any = None
    """`sys.exc_info()` of a transform that failed."""
    is_async: bool = False
    names: Names | None = None

    held: bool = False
    """Whether it must not run yet, because its owner has not decided whether it may."""
    place: int = 0
    """How many requests came before it."""
    lane: str | None = None
    """The lane it was given, from the moment it is given one."""
    waits: dict[str, str] = field(default_factory=dict)
    """The msg_ids that it still waits for, each with the name that is the reason ("" for none)."""
    waited: list[tuple[str, str]] = field(default_factory=list)
    """(name, block id) of what it waited for."""
    notes: list[str] = field(default_factory=list)

    guard: Guard | None = None
    """Opened while its user code runs."""
    home: Home | None = None
    """Where it runs on the async lane."""
    task: asyncio.Task[Any] | None = None
    tasks: weakref.WeakSet[asyncio.Task[Any]] = field(default_factory=weakref.WeakSet)
    """What its code started on the async lane."""
    coroutines: weakref.WeakSet[GuardedCoroutine[Any]] = field(default_factory=weakref.WeakSet)
    """Its code on the async lane, step by step."""
    awaiting: bool = False
    """Whether its task is inside user code that awaits, so that cancelling it hits that code."""
    interrupted: bool = False
    insisted_on: bool = False
    """Whether it outlived its interrupts, and was ended line by line."""

    thread_guards: weakref.WeakSet[Guard] = field(default_factory=weakref.WeakSet)
    """The guards of the threads in which its code runs besides its lane's."""
    signalled: set[Process] = field(default_factory=set)
    """Its processes that got a signal because it has to end."""
    spared_threads: weakref.WeakSet[threading.Thread] = field(default_factory=weakref.WeakSet)
    """Those of them that are meant to outlive it."""
    leaves_running: bool = False
    """Whether it has left something running on purpose."""
    keeps: set[int] | None = None
    """The ids of the processes that it kept for later when it was first told to end."""
    shut_down: bool = False
    """Whether sockets that it waits for are shut down to end it."""
    captures: list[Capture] = field(default_factory=list)
    """What takes its output while it is redirected, the last one first."""
    plotting: Plotting = field(default_factory=Plotting)
    """Its figures of pyplot."""

    count: int = 0
    """Its own execution count."""
    shown_count: int = 0
    """What the shell's counter reads while it runs: its own, and one more after IPython counted it."""
    exec_result: Any = None
    error: dict[str, Any] | None = None
    """The content of the `error` message that it published."""
    error_text: str | None = None
    display_failed: bool = False
    payload: list[dict[str, Any]] = field(default_factory=list)

    started: float | None = None
    ended: float | None = None
    answered: threading.Lock = field(default_factory=threading.Lock)
    """Taken by who writes its one reply, and never given back."""
    is_cut_off: bool = False
    """Whether it counts as ended though its code still runs: it puts nothing out and calls nobody any more."""

    @property
    def msg_id(self) -> str:
        """The id of the request's message."""
        return str(self.parent["header"]["msg_id"])

    @property
    def content(self) -> dict[str, Any]:
        """The request's content."""
        content: dict[str, Any] = self.parent["content"]
        return content

    @property
    def code(self) -> str:
        """The code as it was sent."""
        return str(self.content["code"])

    @property
    def silent(self) -> bool:
        """Whether the client wants no trace of it."""
        return bool(self.content.get("silent", False))

    @property
    def store_history(self) -> bool:
        """Whether it counts and goes into the history."""
        return bool(self.content.get("store_history", not self.silent)) and not self.silent

    @property
    def allow_stdin(self) -> bool:
        """Whether its client can be asked for input."""
        return bool(self.content.get("allow_stdin", False))

    @property
    def stop_on_error(self) -> bool:
        """Whether an error aborts the requests that its client has queued behind it."""
        return bool(self.content.get("stop_on_error", True)) and not self.silent

    @property
    def meta(self) -> dict[str, Any]:
        """Our fields of its metadata; empty for an ordinary client's request."""
        meta = (self.parent.get("metadata") or {}).get(wire.KEY)
        return meta if isinstance(meta, dict) else {}

    @property
    def block_id(self) -> str | None:
        """The agent's name for it, or None for an ordinary client's request."""
        return self.meta.get("id")

    @property
    def label(self) -> str:
        """How to call it in a sentence."""
        return f"block {self.block_id}" if self.block_id else "a cell of another client"

    def leave_running(self, what: threading.Thread | asyncio.Future[Any]) -> None:
        """Let a thread or a task of it go on when the request has to end."""
        self.leaves_running = True
        if isinstance(what, threading.Thread):
            self.spared_threads.add(what)
        elif isinstance(what, asyncio.Task):
            self.tasks.discard(what)
            self.coroutines.discard(what.get_coro())  # type: ignore[arg-type]

    def begin(self) -> None:
        """Note that its first line of code runs now."""
        self.started = time.time()

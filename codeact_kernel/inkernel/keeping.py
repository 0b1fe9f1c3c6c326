"""Which processes a block has started on purpose for later.

Comes in: a request that is being ended, and the namespace. Goes out: the ids of the processes that stay: those that
a name of the namespace holds as an object (`server = subprocess.Popen(…)`), unless the block's code is waiting for
that very object (`server.wait()`), and those that were handed to `self.background`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from codeact_kernel.inkernel.request import Request

_KINDS = (
    ("subprocess", "Popen"),
    ("asyncio.subprocess", "Process"),
    ("multiprocessing.process", "BaseProcess"),
)
"""The classes whose objects stand for a process that code can hold."""

background: set[int] = set()
"""The ids of the processes that were handed to `self.background`."""


def kept_by(request: Request, namespace: Mapping[str, Any]) -> set[int]:
    """The ids of the processes that a request keeps for later.

    Args:
        request: The request.
        namespace: What its code has named.
    """
    kinds = _kinds()
    held = {id(value): value for value in list(namespace.values()) if isinstance(value, kinds)}
    modules = [module for module, _ in _KINDS]
    for frame in _frames_of(request) if held else ():
        if frame.f_globals.get("__name__") in modules:
            held.pop(id(frame.f_locals.get("self")), None)
    return background | {pid for value in held.values() if (pid := pid_of(value)) is not None}


def pid_of(value: Any) -> int | None:
    """The id of the process that an object stands for; None where it stands for none."""
    pid: object = value.pid if isinstance(value, _kinds()) else None  # type: ignore[attr-defined]
    return pid if isinstance(pid, int) else None


def _kinds() -> tuple[type, ...]:
    modules = [(sys.modules.get(module), name) for module, name in _KINDS]
    return tuple(getattr(module, name) for module, name in modules if module is not None)


def _frames_of(request: Request) -> Iterator[FrameType]:
    """The frames of a request's code, in its threads and its coroutines."""
    guards = [guard for guard in (request.guard, *request.thread_guards) if guard is not None]
    frames = sys._current_frames()
    for guard in guards:
        frame = frames.get(guard.thread_of(request) or -1)
        while frame is not None:
            yield frame
            frame = frame.f_back
    for coroutine in list(request.coroutines):
        awaited: Any = coroutine
        while awaited is not None:
            frame = getattr(awaited, "cr_frame", None)
            if frame is not None:
                yield frame
            awaited = getattr(awaited, "cr_await", None)

"""An interrupt that is not swallowed by `except KeyboardInterrupt: pass`, nor by a bare `except:`.

Comes in: a thread in which a request's code runs that has outlived ordinary interrupts. Goes out: an `Insistent` in
that thread, and another one at each further line of the request's code, handlers and the loops around them included,
until that code has ended. Our own files are left out, and IPython's: what follows the request's code is not hit.

From Python 3.12 on the further ones are raised by a callback of `sys.monitoring`. Python 3.11 has only tracing, and
turns it off where a trace function raises. So what it raises carries an object that sends the next `Insistent` when it
is dropped, which is when a handler has swallowed it; and that one turns tracing on again, in the thread that it hits.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import CodeType, FrameType
from typing import Any

import ipykernel
import IPython

_SPARED = tuple(os.path.dirname(file) + os.sep for file in (__file__, IPython.__file__, ipykernel.__file__))  # noqa: PTH120
"""The folders of code that no hit is meant for: what runs a request's code, and what follows it."""
_TOOL = 4
"""One of the two tool ids of `sys.monitoring` that have no name."""

set_async_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc
set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)

_lock = threading.Lock()
_hit: dict[int, Any] = {}
"""The threads whose code is being ended in this way, each with its type of sender."""


class Insistent(KeyboardInterrupt):
    """Comes again until the code has ended. Tracebacks know it as what it is to the code."""

    __module__ = "builtins"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        # An asynchronous exception is given as a class: this runs in the thread that it hits.
        if sys.version_info < (3, 12) and threading.get_ident() in _hit:
            _trace_callers()


Insistent.__name__ = Insistent.__qualname__ = KeyboardInterrupt.__name__


def when_dropped(function: Callable[..., Any], *args: Any) -> Any:
    """A type whose objects call a function of C's when they are dropped: what it sends hits no bytecode of ours.

    Args:
        function: The function.
        *args: Its arguments.
    """
    return type("_Sender", (), {"__del__": staticmethod(partial(function, *args))})


def insist(thread: int) -> None:
    """From now on a thread's code is hit at each line. Contract: a guard's lock is held, its stretch is open.

    Args:
        thread: Its identity.
    """
    with _lock:
        _hit.setdefault(thread, when_dropped(set_async_exc, thread, Insistent))
        if sys.version_info >= (3, 12):
            _monitor(on=True)


def is_hit() -> bool:
    """Whether the calling thread's code is being ended in this way."""
    return threading.get_ident() in _hit


def relent() -> None:
    """In a thread whose code has ended: be as before."""
    if not is_hit():
        return
    with _lock:
        sender = _hit[threading.get_ident()]
        if "__del__" in vars(sender):
            # What is dropped from now on sends nothing.
            del sender.__del__
        if sys.version_info < (3, 12):
            sys.settrace(None)
        _hit.pop(threading.get_ident())
        if sys.version_info >= (3, 12) and not _hit:
            _monitor(on=False)


if sys.version_info >= (3, 12):

    def _monitor(*, on: bool) -> None:
        monitoring = sys.monitoring
        if on and monitoring.get_tool(_TOOL) is None:
            monitoring.use_tool_id(_TOOL, "codeact")
            monitoring.register_callback(_TOOL, monitoring.events.LINE, _on_line)
        monitoring.set_events(_TOOL, monitoring.events.LINE if on else monitoring.events.NO_EVENTS)
        if on:
            monitoring.restart_events()

    def _on_line(code: CodeType, _line: int) -> object:
        if threading.get_ident() in _hit and not code.co_filename.startswith(_SPARED):
            raise Insistent
        # A line of others says so once: what waits in C can be hit for hours, and must not slow them down.
        return sys.monitoring.DISABLE


def _trace_callers() -> None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_SPARED):
            frame.f_trace = _on_event
        frame = frame.f_back
    sys.settrace(_on_event)


def _on_event(frame: FrameType, _event: str, _arg: Any) -> Any:
    sender = _hit.get(threading.get_ident())
    if sender is None or frame.f_code.co_filename.startswith(_SPARED):
        return None
    next_one = sender()  # noqa: F841  (the traceback keeps it)
    raise KeyboardInterrupt

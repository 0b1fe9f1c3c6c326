"""Whose code debugpy follows: a person's, and never an agent's.

Comes in: each stretch of user code, while there is a debugger. Goes out: that stretch, run with its thread's
tracing on or off. Only imported once somebody debugs: an interpreter may be without debugpy.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

# First, for it makes pydevd's own modules known.
import debugpy  # noqa: T100  # isort: skip
from _pydevd_bundle.pydevd_constants import STATE_SUSPEND, get_global_debugger, get_thread_id
from _pydevd_bundle.pydevd_thread_lifecycle import resume_threads
from ipykernel.compiler import get_tmp_directory

from codeact_kernel.inkernel.request import Request

T = TypeVar("T")


def listen(host: str, port: str) -> None:
    """Start debugpy, which follows no thread yet.

    Args:
        host: Where it waits for the kernel's own connection.
        port: The port there.
    """
    os.makedirs(get_tmp_directory(), mode=0o700, exist_ok=True)  # noqa: PTH103
    for thread in threading.enumerate():
        mark(thread, followed=False)
    debugpy.listen((host, int(port)))  # noqa: T100


def mark(thread: threading.Thread, *, followed: bool) -> None:
    """Say whether debugpy may follow a thread: it asks when breakpoints change.

    Args:
        thread: The thread.
        followed: Whether it may.
    """
    thread.pydev_do_not_trace = not followed  # type: ignore[attr-defined]


class Follower:
    """What the guards know of a debugger."""

    def run(self, request: Request, function: Callable[..., T], *args: Any) -> T:
        """Run a stretch of a request's code, followed if it is a person's.

        Args:
            request: Whose code it is.
            function: The code.
            *args: Its arguments.

        Returns:
            What the function returns.
        """
        __tracebackhide__ = True
        thread = threading.current_thread()
        before = not getattr(thread, "pydev_do_not_trace", True)
        wanted = request.block_id is None
        mark(thread, followed=wanted)
        debugpy.trace_this_thread(wanted)
        try:
            return function(*args)
        finally:
            mark(thread, followed=before)
            debugpy.trace_this_thread(before)

    def ended(self) -> None:
        """End the step that has led out of the cell: the next code in its thread would stop at its first line."""
        thread = threading.current_thread()
        info = getattr(thread, "additional_info", None)
        if info is not None and info.pydev_step_cmd != -1:
            resume_threads(get_thread_id(thread))

    def release(self, ident: int) -> None:
        """Tell debugpy and its client that a thread which is stopped goes on: an interrupt is about to end its code.

        Args:
            ident: The thread's number.
        """
        for thread in threading.enumerate():
            info = getattr(thread, "additional_info", None)
            if thread.ident == ident and info is not None and info.pydev_state == STATE_SUSPEND:
                debugger, name = get_global_debugger(), get_thread_id(thread)
                resume_threads(name)
                debugger.writer.add_command(debugger.cmd_factory.make_thread_run_message(debugger, name, -1))

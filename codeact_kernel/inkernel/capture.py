"""Redirected output that stays with the block that redirected it.

Comes in: `contextlib.redirect_stdout`, `redirect_stderr` and IPython's `capture_output` (so `%%capture`) of user
code. Goes out: what that block writes and displays, into the target; nothing of any other block. Assigning
`sys.stdout` by hand still moves the output of the whole process, as the language has it.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

from IPython.utils import capture as ipython

from codeact_kernel.inkernel.request import Capture, Request, current


def stream_target(request: Request, name: str, stream: Any) -> Any:
    """Who takes the text that a request writes.

    Args:
        request: Whose text it is.
        name: "stdout" or "stderr".
        stream: The stream that it was written to.

    Returns:
        The file that it was redirected to last, or None where it was not.
    """
    for capture in reversed(request.captures):
        target = capture.streams.get(name)
        if target is not None and target is not stream:
            return target
    return None


def display_target(request: Request) -> list[dict[str, Any]] | None:
    """Who takes what a request displays: a list, or None where it is not captured.

    Args:
        request: Whose display it is.
    """
    for capture in reversed(request.captures):
        if capture.outputs is not None:
            return capture.outputs
    return None


def adopt_captures() -> None:
    """From now on redirections of blocks stay with their blocks."""
    redirect: Any = contextlib._RedirectStream
    stock_enter, stock_exit = redirect.__enter__, redirect.__exit__

    def enter(self: Any) -> Any:
        request = current.get()
        if request is None:
            return stock_enter(self)
        begun = Capture({self._stream: self._new_target})
        request.captures.append(begun)
        self._old_targets.append(begun)
        return self._new_target

    def leave(self: Any, *exc: object) -> None:
        if self._old_targets and isinstance(self._old_targets[-1], Capture):
            _end(self._old_targets.pop())
        else:
            stock_exit(self, *exc)

    redirect.__enter__, redirect.__exit__ = enter, leave
    _adopt_capture_output()


def _adopt_capture_output() -> None:
    captured: Any = ipython.capture_output
    stock_enter, stock_exit = captured.__enter__, captured.__exit__

    def enter(self: Any) -> Any:
        request = current.get()
        if request is None:
            return stock_enter(self)
        streams = {name: io.StringIO() for name in ("stdout", "stderr") if getattr(self, name)}
        self._begun = Capture(streams, [] if self.display else None)
        request.captures.append(self._begun)
        return ipython.CapturedIO(streams.get("stdout"), streams.get("stderr"), self._begun.outputs)

    def leave(self: Any, *exc: object) -> None:
        begun = self.__dict__.pop("_begun", None)
        if begun is None:
            stock_exit(self, *exc)
        else:
            _end(begun)

    captured.__enter__, captured.__exit__ = enter, leave


def _end(capture: Capture) -> None:
    request = current.get()
    if request is not None and capture in request.captures:
        request.captures.remove(capture)

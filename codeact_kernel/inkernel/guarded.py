"""A coroutine of user code, each step of which an interrupt finds by its guard.

Comes in: a block's coroutine, and the guard of the thread that runs it. Goes out: a coroutine that asyncio runs as any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from codeact_kernel.inkernel.forked import leave_if_copy
from codeact_kernel.inkernel.guard import Guard

T = TypeVar("T")


class GuardedCoroutine(Coroutine[Any, Any, T]):
    """A coroutine of user code, whose every step runs inside a guard.

    What would end the lane's loop instead of the task (KeyboardInterrupt and SystemExit in a task are re-raised
    by asyncio into the loop) leaves as a `TaskEnded`, unless `raw` says that the caller catches it.

    Args:
        guard: The guard of the lane's thread.
        request: Whose code it is.
        coroutine: The user's coroutine.
        raw: Let KeyboardInterrupt and SystemExit through.
    """

    def __init__(
        self, guard: Guard, request: object, coroutine: Coroutine[Any, Any, T], *, raw: bool = False
    ) -> None:
        self._guard = guard
        self._request = request
        self._coroutine = coroutine
        self._raw = raw
        self._is_over = False

    def give_up(self) -> None:
        """Take no further step: the next one closes the coroutine instead, and is a cancellation."""
        self._is_over = True

    def send(self, value: Any) -> Any:
        """One step."""
        __tracebackhide__ = True
        return self._step(self._coroutine.send, value)

    def throw(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> Any:
        """One step, with an exception."""
        __tracebackhide__ = True
        exception = (
            typ if isinstance(typ, BaseException) else val if isinstance(val, BaseException) else typ()
        )
        return self._step(self._coroutine.throw, exception.with_traceback(tb) if tb else exception)

    def close(self) -> None:
        """Close the user's coroutine."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        __tracebackhide__ = True
        try:
            value = self.send(None)
            while True:
                try:
                    sent = yield value
                except GeneratorExit:
                    self.close()
                    raise
                except BaseException as exception:
                    value = self.throw(exception)
                else:
                    value = self.send(sent)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def __getattr__(self, name: str) -> Any:
        # asyncio's and inspect's questions (cr_frame, cr_code, …) are about the user's coroutine.
        return getattr(self._coroutine, name)

    def _step(self, function: Callable[..., Any], *args: Any) -> Any:
        __tracebackhide__ = True
        if self._is_over:
            with suppress(BaseException):
                self._guard.call(self._request, self._coroutine.close)
            raise asyncio.CancelledError
        try:
            awaited = self._guard.call(self._request, function, *args)
        except BaseException as exception:
            if not self._raw:
                leave_if_copy(exception)
            if self._raw or not isinstance(exception, KeyboardInterrupt | SystemExit):
                raise
            raise TaskEnded(f"{type(exception).__name__}: {exception}".rstrip(": ")) from exception
        # In a copy the loop is still the kernel's.
        leave_if_copy()
        return awaited


class TaskEnded(Exception):
    """A task of a block was ended by a KeyboardInterrupt or a SystemExit."""

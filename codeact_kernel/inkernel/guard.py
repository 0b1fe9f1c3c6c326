"""One interrupt, one request: an exception that can only land in the code it was meant for.

Comes in: an interrupt from the control thread. Goes out: a `KeyboardInterrupt` in the thread that runs the
request's code, if and only if that code is what runs there now.

A guard knows requests by their identity only. It belongs to a thread that runs user code. Around each stretch
of user code it is opened for one request and closed again. An interrupt names its request; it is delivered
under the guard's lock while the guard is open for that request, and what has been sent but has not landed when
the guard closes is withdrawn. So it can hit neither our own code nor the next request's.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, TypeVar

from codeact_kernel.inkernel.forked import leave_if_copy

T = TypeVar("T")

_set_async_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)
_NOTHING = ctypes.py_object()
"""A NULL pointer: withdraws what is pending."""


class Guard:
    """The guard of a thread other than the main one: delivers by an asynchronous exception.

    Asynchronous exceptions land between bytecodes: they end Python code, and not a call that blocks in C.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: object | None = None
        self._thread = 0

    def call(self, request: object, function: Callable[..., T], *args: Any) -> T:
        """Run a stretch of a request's code in this thread.

        Args:
            request: Whose code it is.
            function: The code.
            *args: Its arguments.

        Returns:
            What the function returns. What it raises, a KeyboardInterrupt from outside included, is raised.
        """
        __tracebackhide__ = True
        before = self._open
        try:
            self._enter(request)
            return function(*args)
        finally:
            self.close(before)

    def close(self, back_to: object | None = None) -> None:
        """End the stretch: withdraw what has not landed. May be called again; never raises.

        Args:
            back_to: The request whose code goes on now, where one stretch was nested in another.
        """
        while True:
            try:
                self._leave(back_to)
            except KeyboardInterrupt:
                continue
            return

    def is_open_for(self, request: object) -> bool:
        """Whether this request's code is what runs in the thread now."""
        return self._open is request

    def interrupt(self, request: object) -> bool:
        """Interrupt a request, from any thread.

        Args:
            request: Which one is meant.

        Returns:
            Whether its code was running here and the exception was sent.
        """
        with self._lock:
            if self._open is not request:
                return False
            _set_async_exc(self._thread, KeyboardInterrupt)
            return True

    def _enter(self, request: object) -> None:
        self._thread = threading.get_ident()
        self._open = request

    def _leave(self, back_to: object | None) -> None:
        with self._lock:
            self._open = back_to
            if back_to is None:
                _set_async_exc(self._thread, _NOTHING)


class MainGuard(Guard):
    """The guard of the main thread: delivers by SIGINT, which also ends calls that block in C.

    Args:
        on_stray: Called, in the main thread, for a SIGINT that none of our interrupts has sent.
    """

    def __init__(self, on_stray: Callable[[], None]) -> None:
        super().__init__()
        self._on_stray = on_stray
        self._due: object | None = None

    def install(self) -> None:
        """Become the process's handler of SIGINT. Must be called in the main thread."""
        signal.signal(signal.SIGINT, self._on_signal)

    def interrupt(self, request: object) -> bool:
        """As in `Guard`."""
        with self._lock:
            if self._open is not request:
                return False
            self._due = request
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            return True

    def _on_signal(self, signum: int, frame: Any) -> None:
        due, self._due = self._due, None
        if due is None:
            self._on_stray()
        elif due is self._open:
            raise KeyboardInterrupt

    def _leave(self, back_to: object | None) -> None:
        # No lock: the handler runs in this very thread, and one assignment cannot be torn.
        self._open = back_to


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

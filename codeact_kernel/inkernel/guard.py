"""One interrupt, one request: an exception that can only land in the code it was meant for.

Comes in: an interrupt from the control thread. Goes out: a `KeyboardInterrupt` in the thread that runs the
request's code, if and only if that code is what runs there now.

A guard knows requests by their identity only. It belongs to a thread that runs user code. Around each stretch
of user code it is opened for one request and closed again. An interrupt names its request; it is delivered
under the guard's lock while the guard is open for that request, and what has been sent but has not landed when
the guard closes is withdrawn. So it can hit neither our own code nor the next request's.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

from codeact_kernel.inkernel.insist import Insistent, insist, is_hit, relent, set_async_exc, when_dropped

T = TypeVar("T")

Later = Callable[[float, Callable[[], None]], None]
"""Calls a function after so many seconds, in another thread."""

NUDGE = 0.05
"""Seconds after which a signal whose handler has not run is followed by a nudge."""

_here = threading.local()


class Follower(Protocol):
    """A debugger that follows code."""

    def run(self, request: Any, function: Callable[..., T], *args: Any) -> T:
        """Run a stretch. Contract: called in the thread of the guard; returns and raises what the function does."""

    def ended(self) -> None:
        """Take note that a request's code has ended. Contract: called in the thread of its lane."""

    def release(self, ident: int) -> None:
        """Let a thread go on that is stopped. Contract: called in another, just before it is interrupted."""


class Guard:
    """The guard of a thread other than the main one: delivers by an asynchronous exception.

    Asynchronous exceptions land between bytecodes: they end Python code, and not a call that blocks in C.
    """

    follower: ClassVar[Follower | None] = None
    """While there is a debugger: what runs each stretch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: object | None = None
        self._thread = 0
        self._sent = False
        self._held = False
        self._put_off: bool | None = None
        """Whether the interrupt that came while they were held back insists; None where none came."""

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
        # Closed at once, in one step in which nothing lands: from then on no more than two are on their way, the one
        # that was sent and the one that another thread is about to send. Each can land once where nothing is caught.
        try:
            try:
                try:
                    self._enter(request)
                    if Guard.follower is not None:
                        return Guard.follower.run(request, function, *args)
                    return function(*args)
                finally:
                    self._open = before
                    self.close(before)
            finally:
                self._open = before
                self.close(before)
        finally:
            self._open = before
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

    def interrupt(self, request: object, *, insisting: bool = False) -> bool:
        """Interrupt a request, from any thread.

        Args:
            request: Which one is meant.
            insisting: Whether the interrupt comes again until its code has ended, whatever that catches.

        Returns:
            Whether its code was running here and the exception was sent.
        """
        with self._lock:
            if self._open is not request:
                return False
            if Guard.follower is not None:
                Guard.follower.release(self._thread)
            if self._held:
                self._put_off = insisting
            else:
                self._deliver(request, insisting=insisting)
            return True

    def again(self) -> object | None:
        """Have an interrupt that was sent come again, since it has landed where Python drops it, in this thread.

        Returns:
            What sends it as soon as it is dropped itself; None where none was sent, or one comes at each line.
        """
        return self._sender() if self._sent and self._open is not None and not is_hit() else None

    def hold(self, function: Callable[..., T], *args: Any) -> T:
        """Run a function in this thread, and hold interrupts back until it has returned.

        Args:
            function: What must not be interrupted.
            *args: Its arguments.

        Returns:
            What the function returns.
        """
        __tracebackhide__ = True
        try:
            self._held = True
            return function(*args)
        finally:
            self._release()

    def let_go(self) -> None:
        """Take note that this is a copy of the process, in which nobody else has to do with this guard."""
        self._lock = threading.Lock()
        self._put_off = None

    def thread_of(self, request: object) -> int | None:
        """The identity of the thread, where this request's code is what runs in it now."""
        return self._thread if self._open is request else None

    def _release(self) -> None:
        __tracebackhide__ = True
        with self._lock:
            put_off, self._put_off, self._held = self._put_off, None, False
            if put_off is not None and self._open is not None:
                self._deliver(self._open, insisting=put_off)

    def _deliver(self, request: object, *, insisting: bool) -> None:
        if insisting:
            insist(self._thread)
        self._send(request, Insistent if insisting else KeyboardInterrupt)

    def _send(self, request: object, exception: type[KeyboardInterrupt]) -> None:
        self._sent = True
        set_async_exc(self._thread, exception)

    def _sender(self) -> object:
        sender: object = when_dropped(set_async_exc, self._thread, KeyboardInterrupt)()
        return sender

    def _enter(self, request: object) -> None:
        self._thread = threading.get_ident()
        self._open = request
        _here.guard = self

    def _leave(self, back_to: object | None) -> None:
        with self._lock:
            self._open = back_to
        if back_to is None:
            relent()
            if self._sent:
                self._catch()

    def _catch(self) -> None:
        # Withdrawing it with a NULL would do, but leaves the interpreter's mark that there is something pending:
        # in Python 3.11 code that is traced would never get past its start from then on.
        try:
            set_async_exc(self._thread, KeyboardInterrupt)
            while True:
                # It lands with the call: in Python 3.13 the end of a loop lies outside of the `try` around it.
                time.sleep(0)
        except KeyboardInterrupt:
            self._sent = False


class MainGuard(Guard):
    """The guard of the main thread: delivers by SIGINT, which also ends calls that block in C.

    A signal that comes after the interpreter's last look for signals, and before the call blocks, is only noted: the
    call blocks all the same. So the thread is nudged until the handler has run: by SIGURG, which means nothing where
    it comes too late.

    Args:
        on_signal: Called, in the main thread, for a SIGINT that none of our interrupts has sent, with the request whose
            code runs, or None. Returns whether that request is what the signal means.
        later: Calls the nudges.
    """

    def __init__(self, on_signal: Callable[[Any], bool], later: Later) -> None:
        super().__init__()
        self._is_meant = on_signal
        self._later = later
        self._due: object | None = None

    def hold(self, function: Callable[..., T], *args: Any) -> T:
        """As in `Guard`, but a signal finds the main thread whatever that does: nothing need be held back."""
        __tracebackhide__ = True
        return function(*args)

    def install(self) -> None:
        """Become the process's handler of SIGINT. Must be called in the main thread."""
        signal.signal(signal.SIGINT, self._on_signal)
        if hasattr(signal, "SIGURG"):
            # A signal that is ignored, as this one is by default, ends no call.
            signal.signal(signal.SIGURG, lambda signum, frame: None)

    def _send(self, request: object, exception: type[KeyboardInterrupt]) -> None:
        self._expect(request)
        signal.pthread_kill(self._thread, signal.SIGINT)

    def _sender(self) -> object:
        # Its handler runs at the next bytecode, and not in the call, as with `pthread_kill`.
        sender: object = when_dropped(_thread.interrupt_main)()
        self._expect(self._open)
        return sender

    def _expect(self, request: object) -> None:
        self._due = request
        self._later(NUDGE, partial(self._nudge, request, NUDGE))

    def _nudge(self, request: object, pause: float) -> None:
        if self._due is request is self._open:
            signal.pthread_kill(self._thread, signal.SIGURG)
            # Rarer and rarer: a handler of the code's own does not tell that it has run.
            self._later(2 * pause, partial(self._nudge, request, 2 * pause))

    def _on_signal(self, signum: int, frame: Any) -> None:
        due, self._due = self._due, None
        running = self._open
        if self._is_meant(running) if due is None else due is running:
            self._sent = True
            raise Insistent if is_hit() else KeyboardInterrupt

    def _leave(self, back_to: object | None) -> None:
        # No lock: the handler runs in this very thread, and one assignment cannot be torn.
        self._open = back_to
        if back_to is None:
            self._sent = False
            if is_hit():
                relent()
                self._catch()


def hold_here(function: Callable[..., T], *args: Any) -> T:
    """Start a thread or a copy of the process from user code, with interrupts held back in a guard's thread.

    In Python 3.11 a new thread has its starter's id for a moment: what is sent to the starter lands in the thread,
    which ends before it has begun, and its starter waits for it for ever. What is on its way at a fork lands in the
    copy, too.

    Args:
        function: What starts it.
        *args: Its arguments.

    Returns:
        What the function returns.
    """
    guard: Guard | None = getattr(_here, "guard", None)
    return function(*args) if guard is None else guard.hold(function, *args)


def adopt_callbacks() -> None:
    """Have an interrupt come again that lands in a `__del__`, a weak reference's callback or another one of Python's.

    What is raised there goes no further: code that drops objects all the time would outlive any number of interrupts.
    """
    before = sys.unraisablehook

    def hook(dropped: Any) -> None:
        guard: Guard | None = getattr(_here, "guard", None)
        # The sender is dropped with this frame, and so sends where the callback was called.
        sender = guard and issubclass(dropped.exc_type, KeyboardInterrupt) and guard.again()
        if not sender:
            before(dropped)

    sys.unraisablehook = hook


def let_go_in_copy() -> None:
    """In a forked copy: nobody interrupts, and a lock that another thread held is held for ever."""
    guard: Guard | None = getattr(_here, "guard", None)
    if guard is not None:
        guard.let_go()

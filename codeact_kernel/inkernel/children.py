"""The children of blocks: pipes of their own, for each block its own.

Comes in: each start of a child, told by the wrappers in `spawning`. Goes out: the descriptors that the child
writes to, whose text reaches the outbox of the request whose code started it, in its place among the request's own
outputs, and after the request's end as its late output.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from codeact_kernel.inkernel import processes
from codeact_kernel.inkernel.pipes import Pipe, Reader
from codeact_kernel.inkernel.request import Request, current
from codeact_kernel.inkernel.trees import MARK, Brood, Trees

if TYPE_CHECKING:
    from codeact_kernel.inkernel.outbox import Outbox

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two looks at what has ended, while there are children."""


class TextFirst:
    """Stands for a request's outbox while it has children: what they have written comes before what it puts out.

    Args:
        outbox: The outbox.
        take_in: Waits until it has all that the children have written until now.
    """

    def __init__(self, outbox: Outbox, take_in: Callable[[], None]) -> None:
        self._outbox = outbox
        self._take_in = take_in

    def write(self, name: str, text: str) -> None:
        """As in `Outbox`."""
        self._take_in()
        self._outbox.write(name, text)

    def publish(self, message: dict[str, Any], topic: bytes) -> None:
        """As in `Outbox`."""
        self._take_in()
        self._outbox.publish(message, topic)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outbox, name)


class Start:
    """The start of one child.

    Args:
        children: All children.
        brood: Those of the request whose code starts it; None where it is nobody's.
    """

    def __init__(self, children: Children, brood: Brood | None) -> None:
        self._children = children
        self._brood = brood

    @property
    def mark(self) -> dict[str, str]:
        """What its environment gets."""
        return {} if self._brood is None else {MARK: self._brood.request.msg_id}

    def heir(self, standard: int, given: int | None = None) -> int | None:
        """What the child gets as its stdout or stderr.

        Args:
            standard: 1 or 2.
            given: The descriptor that the code chose for it, or None for what it inherits.

        Returns:
            The block's own pipe where the child would have this process's stdout or stderr; None where the code
            has redirected it.
        """
        which = self._children.which(standard if given is None else given)
        if which is None or self._brood is None or self._brood.ends is None:
            return None
        return self._brood.ends[which - 1]

    def note(self, pid: int) -> None:
        """Take note of the child.

        Args:
            pid: Its id.
        """
        self._children.note(pid, self._brood)


class Children(Trees):
    """The children of all requests.

    Args:
        reader: Reads their pipes.
        later: Calls a function after so many seconds, in another thread.
        kept: The ids of the processes that a request keeps for later.
    """

    def __init__(
        self,
        reader: Reader,
        later: Callable[[float, Callable[[], None]], None],
        kept: Callable[[Request], set[int]],
    ) -> None:
        super().__init__(kept)
        self._reader = reader
        self._later = later
        self._looking = False
        self._standard = {fd: _identity(fd) for fd in (1, 2)}
        self.forked = False
        """Whether this is a forked copy of the kernel's process, whose children inherit what it has."""

    @contextmanager
    def starting(self, *, helper: bool = False) -> Generator[Start]:
        """Around the start of a child by the current request's code.

        Args:
            helper: Whether the child will serve all blocks, and so belongs to none.
        """
        request = current.get()
        if self.forked or helper or request is None:
            yield Start(self, None)
            return
        brood = self._hold(request)
        try:
            yield Start(self, brood)
        finally:
            if not self.forked:
                self._release(brood)

    def note(self, pid: int, brood: Brood | None) -> None:
        """Take note of a child.

        Args:
            pid: Its id.
            brood: Whose it is; None for nobody's.
        """
        if self.forked:
            return
        seen = processes.look(pid)
        (self._nobodys if brood is None else brood.pids)[pid] = seen.started if seen else None
        self._look_later()

    def which(self, fd: int) -> int | None:
        """Whether a descriptor is the process's stdout (1) or stderr (2), as they were at first, or neither."""
        identity = _identity(fd)
        order = (2, 1) if fd == 2 else (1, 2)
        return next((which for which in order if identity and identity == self._standard[which]), None)

    def leave(self, request: Request) -> None:
        """Take the end of a request: what its ended children have written is in its outbox when this returns.

        Args:
            request: The request, whose code ran in this thread.
        """
        brood = self._broods.get(request.msg_id)
        if brood is not None:
            brood.left = True
            brood.starting.discard(threading.get_ident())
            self._reader.call(partial(self._settle, brood))

    def follow(self, fd: int, request: Request) -> None:
        """Read on for a request from a descriptor that its children may still write to.

        Args:
            fd: The reading end, which is closed at its end.
            request: Whose output it is.
        """
        pipe = Pipe(fd, partial(request.outbox.write, "stdout"), request.outbox.has_room)
        self._reader.call(partial(self._reader.add, pipe))

    def become_copy(self) -> None:
        """In a forked child: its block's pipes are its stdout and stderr, and nothing else of here is its."""
        self.forked = True
        request = current.get()
        brood = self._broods.get(request.msg_id) if request is not None else None
        own: tuple[int, ...] = ()
        if brood is not None and brood.ends is not None:
            own = brood.ends
            os.environ[MARK] = brood.request.msg_id
            for standard, end in zip((1, 2), own, strict=True):
                if self.which(standard) is not None:
                    os.dup2(end, standard)
        others = [fd for other in self._broods.values() for fd in other.ends or () if fd not in own]
        for fd in {*self._reader.descriptors(), *others}:
            with suppress(OSError):
                os.close(fd)

    # -- pipes. What changes them runs in the reader's thread, where no interrupt lands. -------------------

    def _hold(self, request: Request) -> Brood:
        with self._lock:
            brood = self._broods.get(request.msg_id)
            if brood is None:
                brood = Brood(request, request.outbox, left=request.ended is not None)
                self._broods[request.msg_id] = brood
            brood.starting.add(threading.get_ident())
        if brood.ends is None:
            self._reader.call(partial(self._open, brood))
        return brood

    def _open(self, brood: Brood) -> None:
        if brood.ends is not None:
            return
        out, err = os.pipe(), os.pipe()
        for name, (read, _) in (("stdout", out), ("stderr", err)):
            pipe = Pipe(read, partial(brood.outbox.write, name), brood.outbox.has_room)
            brood.pipes.append(pipe)
            self._reader.add(pipe)
        brood.ends = out[1], err[1]
        brood.request.outbox = TextFirst(brood.outbox, lambda: self._reader.drain(*brood.pipes))  # type: ignore[assignment]

    def _release(self, brood: Brood) -> None:
        brood.starting.discard(threading.get_ident())
        if brood.left:
            self._reader.call(partial(self._settle, brood))

    def _settle(self, brood: Brood) -> None:
        """Let go of the writing ends, unless a child is being started, and take all that was written."""
        with self._lock:
            ends, brood.ends = (None, brood.ends) if brood.starting else (brood.ends, None)
        for fd in ends or ():
            os.close(fd)
        self._reader.settle(*brood.pipes)
        brood.pipes = [pipe for pipe in brood.pipes if not pipe.ended]
        if not brood.pipes:
            brood.request.outbox = brood.outbox

    # -- a look now and then ------------------------------------------------------------------------------

    def _look_later(self) -> None:
        def post() -> None:
            self._reader.post(self._look)

        with self._lock:
            if self._looking:
                return
            self._looking = True
        self._later(LOOK, post)

    def _look(self) -> None:
        """See what has ended. Goes on as long as there are children."""
        self._looking = False
        try:
            self._see_what_has_ended()
        except Exception:
            log.exception("the children cannot be looked after")
        if self._broods or self._nobodys or self._ended_before:
            self._look_later()

    def _see_what_has_ended(self) -> None:
        with suppress(ChildProcessError):
            self._reap()
        self._forget()
        for brood in list(self._broods.values()):
            known = set(brood.starting)
            brood.starting -= known - sys._current_frames().keys()
            if not brood.pids:
                # A print of the block looks into its pipes first: none has to once the children are gone.
                self._settle(brood)


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino

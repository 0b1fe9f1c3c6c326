"""Takes a checkpoint from a copy of the kernel's process, which nothing in this one waits for.

Comes in: `CHECKPOINT` and `RESTORE` on the control channel. Goes out: a checkpoint's files in a folder; names bound.

Pickling runs code of the values' classes, holds the interpreter's lock for as long as it takes, and reads what blocks
change meanwhile. In a forked copy none of that reaches anybody: the copy has the namespace as it was at one instant,
descriptors that lead nowhere, and an end.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import mmap
import os
import re
import shutil
import signal
import struct
import sys
import time
import types
import warnings
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from codeact_kernel.inkernel import functions, parcels, wire
from codeact_kernel.inkernel.checkpoint.restoring import restore
from codeact_kernel.inkernel.checkpoint.writing import EACH, MANIFEST, Writer
from codeact_kernel.inkernel.family import Family
from codeact_kernel.inkernel.request import Request

ALL = 120.0
"""Seconds that a checkpoint may take; ours: 1 GB of arrays takes four."""
TRIES = 3
"""How often one is tried when a value's pickling ends the copy: each time without the names that did."""
STUCK = EACH + 2
"""Seconds that the copy may stay with one name; it gives one up by itself, unless C code holds it."""
POLL = 0.01
"""Seconds between looks at the copy."""
MOST_DESCRIPTORS = 65_536
"""Descriptors that are looked at where they cannot be listed."""
ROOM = 2**29
"""Bytes of memory that the copy may take besides what it shares and what it is to write; ours."""
_OWN = re.compile(r"_+|_i+|_i?\d+|_[iod]h|In|Out|__\w+__|_exit_code")
"""Names that are IPython's or the module's own."""
_MADE = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
"""What is whole as soon as a name is bound to it."""
_FIXED = (str, bytes, int, float, complex, bool, type(None))
"""What a block that only reads a name cannot change."""
_SET_PDEATHSIG = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
warnings.filterwarnings("ignore", category=DeprecationWarning, module=re.escape(__name__))
"""Python warns of each fork in a process that has threads; ours runs nothing that needs one of them."""


class Note:
    """What the copy says while it lives: a few bytes that both processes see."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 512)
        self.number = -1

    @property
    def number(self) -> int:
        """The number of the name that is being pickled; below zero for none."""
        return int(struct.unpack_from("<q", self._shared)[0])

    @number.setter
    def number(self, number: int) -> None:
        struct.pack_into("<q", self._shared, 0, number)

    @property
    def text(self) -> str:
        """Why it has failed."""
        return bytes(self._shared[8:]).rstrip(b"\0").decode("utf-8", "replace")

    @text.setter
    def text(self, text: str) -> None:
        struct.pack_into("504s", self._shared, 8, text.encode("utf-8", "replace"))


class Checkpoints:
    """Takes and restores checkpoints of a namespace.

    Args:
        shell: IPython's shell.
        family: Where what is read arrives.
        live: Gives the requests that have not ended.
        reply: Sends a reply on the control channel: (type, content, parent, identity).
        beside: Runs something beside other control messages.
    """

    def __init__(
        self,
        shell: Any,
        family: Family,
        live: Callable[[], Iterable[Request]],
        reply: Callable[[str, dict[str, Any], Any, Any], None],
        beside: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._shell, self._family, self._live = shell, family, live
        self._reply, self._beside = reply, beside
        self._hopeless: dict[str, tuple[int, str]] = {}
        """Names that are not tried as long as they hold the same object, and why."""

    @property
    def handlers(self) -> dict[str, Callable[[Any, Any, dict[str, Any]], Coroutine[Any, Any, None]]]:
        """What takes which control message."""
        return {wire.CHECKPOINT: self._on_take, wire.RESTORE: self._on_restore}

    async def _on_take(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        wanted = parent["content"]

        async def work() -> None:
            error = await asyncio.to_thread(self.take, wanted["folder"], wanted["most"], wanted["have"])
            self._reply(wire.CHECKPOINT_REPLY, {"status": "ok", "error": error}, parent, ident)

        self._beside(work())

    async def _on_restore(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        async def work() -> None:
            self._family.ensure_cloudpickle()
            hidden = self._shell.user_ns_hidden
            back, missing = await asyncio.to_thread(
                restore, parent["content"]["folder"], self._family, hidden
            )
            self._reply(wire.RESTORE_REPLY, {"status": "ok", "back": back, "missing": missing}, parent, ident)

        self._beside(work())

    def take(self, folder: str, most: int, have: Sequence[str]) -> str | None:
        """Take a checkpoint.

        Args:
            folder: Where to; it is made.
            most: Bytes that it may have.
            have: The digests of files that the host has.

        Returns:
            Why there is none; None where there is one.
        """
        self._family.ensure_cloudpickle()
        parcels.pickler_class()
        names, values, deadline = self.names(), self._shell.user_ns, time.monotonic() + ALL
        for _ in range(TRIES):
            note = Note()
            writer = Writer(folder, values, self.busy(names), self._skipped(names), most, have, note)
            os.mkdir(folder, 0o700)  # noqa: PTH102
            how = run_in_copy(partial(writer.write, names), note, most + ROOM, deadline)
            if how is None and os.path.exists(os.path.join(folder, MANIFEST)):  # noqa: PTH110, PTH118
                self._learn(folder)
                return None
            shutil.rmtree(folder, ignore_errors=True)
            if note.text or note.number < 0:
                return note.text or how or "it ended too early"
            # Its pickling has ended the copy, or did not end: the others are saved without it.
            name, why = names[note.number], f"its pickling {how or 'ended the process'}"
            self._hopeless[name] = id(values.get(name)), why
        return why

    def names(self) -> list[str]:
        """The names that a checkpoint shall hold: all that blocks have made."""
        values, hidden = self._shell.user_ns, self._shell.user_ns_hidden
        return [
            name
            for name in list(values)
            if not _OWN.fullmatch(name) and hidden.get(name, hidden) is not values.get(name)
        ]

    def busy(self, names: Iterable[str]) -> dict[str, str]:
        """Names that a block which runs now may be changing, and that block.

        Args:
            names: Names of the namespace.
        """
        values, busy = self._shell.user_ns, {}
        for request in self._live():
            # One that has its reply is still listed for a moment.
            if request.lane is None or request.ended is not None or request.names is None:
                continue
            touched = self._reached(request.names.needs)
            for name in touched.union(request.names.makes).intersection(names):
                value, only_read = values.get(name), name not in request.names.makes
                if not (isinstance(value, _MADE) or (only_read and type(value) in _FIXED)):
                    busy[name] = request.label
        return busy

    def _reached(self, names: Iterable[str]) -> set[str]:
        """Names, and those that the functions and classes among them read."""
        values, reached, due = self._shell.user_ns, set(), list(names)
        while due:
            name = due.pop()
            if name in reached:
                continue
            reached.add(name)
            for function in _functions_of(values.get(name)):
                if function.__globals__ is values:
                    due += functions.reads(function.__code__)
        return reached

    def _skipped(self, names: Iterable[str]) -> dict[str, str]:
        values, skipped = self._shell.user_ns, {}
        for name in names:
            number, why = self._hopeless.get(name, (None, ""))
            if number == id(values.get(name)):
                skipped[name] = why
        return skipped

    def _learn(self, folder: str) -> None:
        """Take note of the names that took too long."""
        with suppress(OSError), open(os.path.join(folder, "slow.json"), "rb") as slow:  # noqa: PTH118
            for name, why in json.load(slow).items():
                self._hopeless[name] = id(self._shell.user_ns.get(name)), why


def _functions_of(value: Any) -> Iterable[types.FunctionType]:
    if isinstance(value, types.FunctionType):
        return [value]
    parts = vars(value).values() if isinstance(value, type) else ()
    return [part for part in parts if isinstance(part, types.FunctionType)]


def run_in_copy(work: Callable[[], None], note: Note, room: int, deadline: float) -> str | None:
    """Run something in a copy of this process, and wait for that.

    Args:
        work: What is run.
        note: Says how far it is.
        room: Bytes of memory that the copy may take besides what it shares.
        deadline: When it has to have ended, as `time.monotonic` says it.

    Returns:
        What became of it, where it has not come to its end: a clause.
    """
    import posix

    limit = _size_of_memory() + room
    # Not `os.fork`, which is for blocks: the copy belongs to none of them.
    pid = posix.fork()
    if pid == 0:
        try:
            _become_copy(limit)
            work()
            os._exit(0)
        except BaseException as error:
            note.text = f"{type(error).__name__}: {error}"
        finally:
            os._exit(1)
    since, number = time.monotonic(), note.number
    while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
        now = time.monotonic()
        if number != note.number:
            since, number = now, note.number
        if now > deadline or (number >= 0 and now > since + STUCK):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            _end_group(pid)
            return "did not end"
        time.sleep(POLL)
    _end_group(pid)
    code = os.waitstatus_to_exitcode(ended[1])
    return None if code == 0 else f"ended the process with {code}"


def _end_group(group: int) -> None:
    """End what is left of a copy and of what its pickling has started, and wait for that."""
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-group, 0)


def _size_of_memory() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * mmap.PAGESIZE


def _become_copy(limit: int) -> None:
    """Be a process of which nobody hears and that nobody waits for.

    Args:
        limit: Bytes of memory that it may have.
    """
    import resource

    os.setsid()
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    sys.settrace(None)
    gc.disable()
    os.nice(5)
    _lead_nowhere()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _lead_nowhere() -> None:
    """Put nothing behind each descriptor: a value that writes to its file or socket writes into none.

    They are not closed: what is opened here would get the number of one that a value believes to be its own.
    """
    import resource

    try:
        numbers = list(map(int, os.listdir("/proc/self/fd")))  # noqa: PTH208
    except OSError:  # Landlock has let the process see its own entry, and a copy has another one
        numbers = list(range(min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], MOST_DESCRIPTORS)))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in numbers:
        with suppress(OSError):
            os.fstat(number)
            os.dup2(nothing, number)

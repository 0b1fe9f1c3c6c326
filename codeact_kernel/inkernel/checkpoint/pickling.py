"""What a checkpoint holds of a value, and what it cannot hold.

Comes in: values. Goes out: their pickles, what these share with others, and which other names they need; or one line
on why there is none. Functions go as `functions` has it: where they come back, the live namespace is their globals.
Classes and functions that have a name go by that name, so that data does not hold a copy of them.
"""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import io
import pathlib
import re
import sys
import threading
import types
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from codeact_kernel.inkernel import functions, parcels
from codeact_kernel.inkernel.proxies import Proxy
from codeact_kernel.inkernel.toolbox import TOOL, Group, Toolbox

LARGE = 2**16
"""Bytes from which the buffer of an array is a file of its own; ours."""
SMALL = 2**14
"""Bytes up to which a pickle lies in one file with others; ours. A file for each of ten thousand names is too many."""
_NEVER = {
    types.GeneratorType: "a generator", types.CoroutineType: "a coroutine",
    types.AsyncGeneratorType: "an async generator", types.FrameType: "a frame", types.TracebackType: "a traceback",
    type(threading.Lock()): "a lock", type(threading.RLock()): "a lock", threading.Thread: "a thread",
    asyncio.Future: "a task", asyncio.AbstractEventLoop: "an event loop", Proxy: "an object of another kernel",
}  # fmt: skip
_NEVER_THERE = (
    ("asyncio.mixins", "_LoopBoundMixin", "a part of an event loop"),
    ("concurrent.futures", "Executor", "a pool"),
    ("concurrent.futures", "Future", "a task"),
    ("subprocess", "Popen", "a process"),
    ("asyncio.subprocess", "Process", "a process"),
    ("multiprocessing.process", "BaseProcess", "a process"),
    ("multiprocessing.pool", "Pool", "a pool"),
    ("multiprocessing.managers", "BaseProxy", "an object of another process"),
    ("multiprocessing.queues", "Queue", "a pipe"),
    ("sqlite3", "Connection", "a connection"),
    ("http.client", "HTTPConnection", "a connection"),
    ("urllib3", "PoolManager", "a connection"),
    ("requests", "Session", "a session with connections"),
    ("httpx", "Client", "a session with connections"),
    ("httpx", "AsyncClient", "a session with connections"),
    ("aiohttp", "ClientSession", "a session with connections"),
    ("smtplib", "SMTP", "a connection"),
    ("ftplib", "FTP", "a connection"),
    ("imaplib", "IMAP4", "a connection"),
)
"""Some of these can be pickled; what comes back is then no connection to anything. What has a descriptor is found by
that."""
_CACHED = type(functools.cache(len))
_IN_MEMORY = (io.BytesIO, io.StringIO)
_ATOMS = (
    str, bytes, int, float, complex, type(None), tuple, frozenset, range, slice, types.CodeType,
    types.BuiltinFunctionType, types.ModuleType, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo,
    decimal.Decimal, fractions.Fraction, enum.Enum, pathlib.PurePath, re.Pattern, uuid.UUID,
)  # fmt: skip
"""What nobody can change: whether two names share one of these does not show."""
_SHOWN = 200
"""Characters of a reason."""


_NAMED = (type, types.FunctionType)


class _Atomic(dict[type, bool]):
    """Of each class whether it is one of those: looked up for each object, so without a call."""

    def __missing__(self, kind: type) -> bool:
        atomic = issubclass(kind, _ATOMS) or kind.__module__.startswith("numpy.dtype")
        self[kind] = atomic
        return atomic


_ATOMIC = _Atomic()


class NotKept(TypeError):
    """A checkpoint cannot hold a value, because of something that it is or holds.

    Args:
        what: The something, in words: "an open file".
        kind: Its class.
    """

    def __init__(self, what: str, kind: type) -> None:
        super().__init__(f"{what} ({kind.__name__})")
        self.kind = kind


class TooLarge(Exception):
    """A pickle has more bytes than there is room for."""


class TooLong(BaseException):
    """Pickling takes longer than it may. Code that catches each `Exception` shall not swallow it."""


@dataclass(eq=False)
class Piece:
    """The pickle of one name, or of some that share something."""

    names: list[str]
    size: int = 0
    digest: str = ""
    data: bytes | None = None
    """The pickle, where it is small."""
    buffers: list[Any] = field(default_factory=list)
    """The buffers that are files of their own."""
    needs: set[str] = field(default_factory=set)
    """Names that must be there before it is read."""
    parts: dict[int, Any] = field(default_factory=dict)
    """All objects in it that somebody may change, by their ids, which nothing else gets as long as they are here."""

    @property
    def whole(self) -> int:
        """Bytes of it and its buffers."""
        return self.size + sum(memoryview(buffer).nbytes for buffer in self.buffers)


class Names:
    """Pickles names of a namespace.

    Args:
        namespace: The namespace.
        named: The names that classes and functions go by, by the ids of those.
        most: Bytes that a pickle and its buffers may have.
    """

    def __init__(self, namespace: Mapping[str, Any], named: Mapping[int, str], most: int) -> None:
        self._namespace = namespace
        self._named = named
        self._most = most

    def pickle(self, names: Iterable[str], out: Callable[[bytes], object] = lambda data: None) -> Piece:
        """Pickle what some names hold, together.

        Args:
            names: The names.
            out: Gets the pickle, bit by bit.

        Raises:
            NotKept: If a checkpoint cannot hold it.
            TooLarge: If there is no room for it.
            BaseException: Whatever the code of its classes raises.
        """
        piece = Piece(list(names))
        sink, trip = _Sink(self._most, out), _Trip(self._namespace, self._named, set(piece.names))

        def take(buffer: Any) -> bool:
            raw = buffer.raw()
            if raw.nbytes < LARGE:
                return True
            sink.count(raw.nbytes)
            piece.buffers.append(raw)
            return False

        pickler = parcels.pickler_class()(trip, sink, take)
        values = {name: self._namespace[name] for name in piece.names}
        pickler.dump(values)
        piece.size, piece.digest, piece.data = sink.size, sink.digest.hexdigest(), sink.kept
        piece.needs = trip.needs
        piece.parts = {
            number: value
            for number, (_, value) in pickler.memo.copy().items()
            if not _ATOMIC[type(value)] and number not in trip.by_name
        }
        # A class of a library is not of this namespace, and so nobody's to share.
        for number, value in list(piece.parts.items()):
            if value is values or (isinstance(value, _NAMED) and not go_by_name(value)):
                del piece.parts[number]
        return piece


class _Sink:
    """Takes a pickle: counts it, and keeps it as long as it is small."""

    def __init__(self, most: int, out: Callable[[bytes], object]) -> None:
        self._most, self._out = most, out
        self._all = self.size = 0
        self.digest = hashlib.sha256()
        self.kept: bytes | None = b""

    def write(self, data: bytes) -> None:
        """As a file's."""
        self.size += len(data)
        self.count(len(data))
        self.digest.update(data)
        if self.kept is not None:
            self.kept = self.kept + bytes(data) if self.size <= SMALL else None
        self._out(data)

    def count(self, size: int) -> None:
        """Count bytes of the pickle or of a buffer."""
        self._all += size
        if self._all > self._most:
            raise TooLarge


class _Trip:
    """As `parcels.Trip`, to a namespace in which everything else that has a name comes back, too."""

    def __init__(self, namespace: Mapping[str, Any], named: Mapping[int, str], inside: set[str]) -> None:
        self._namespace, self._named, self._inside = namespace, named, inside
        self.needs: set[str] = set()
        self.by_name: set[int] = set()
        """The ids of what goes by name."""

    def reduce(self, value: Any) -> Any:
        """As `Pickler.reducer_override`."""
        kind = type(value)
        tool = getattr(value, TOOL, None) if kind in (types.FunctionType, Group, Toolbox) else None
        name = self._named.get(id(value))
        if tool is not None or (name is not None and name not in self._inside):
            self.by_name.add(id(value))
            if tool is not None:
                return parcels.find, (tool,)
            self.needs.add(str(name))
            return _named, (name,)
        if kind is types.FunctionType:
            return functions.parts_of(value) if value.__globals__ is self._namespace else NotImplemented
        if kind is types.CellType:
            return functions.parts_of_cell(value)
        if kind is _CACHED:
            return _cached, (value.__wrapped__, value.cache_parameters())
        what = what_never_comes_back(value)
        if what is not None:
            raise NotKept(what, kind)
        return NotImplemented


def what_never_comes_back(value: Any) -> str | None:
    """What a value is that no checkpoint holds, in words; None where it may be held."""
    if isinstance(value, type | types.ModuleType):
        return None
    kind = type(value)
    for base in kind.__mro__:
        if base in _NEVER:
            return _NEVER[base]
    for module, name, words in _NEVER_THERE:
        never = getattr(sys.modules.get(module), name, None)
        if isinstance(never, type) and issubclass(kind, never):
            return words
    if callable(getattr(kind, "fileno", None)) and not issubclass(kind, _IN_MEMORY):
        return "a socket" if "socket" in kind.__name__.lower() else "an open file, or a connection"
    return None


def why_not(value: Any, error: BaseException) -> str:
    """Why a checkpoint cannot hold a value, in one line.

    Args:
        value: The value.
        error: What its pickling has raised.
    """
    if isinstance(error, NotKept):
        return f"it {'is' if error.kind is type(value) else 'holds'} {error}"
    if isinstance(error, MemoryError):
        return "there was not enough memory to pickle it"
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    return f"it cannot be pickled: {type(error).__name__}{f': {text}' if text else ''}"[:_SHOWN]


def go_by_name(value: Any) -> bool:
    """Whether a value of the namespace is a class or a function that was made in it."""
    return isinstance(value, _NAMED) and getattr(value, "__module__", "") == "__main__"


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    """A function that remembers its results. It goes by its name else, which leads nowhere where it comes back."""
    return functools.lru_cache(**parameters)(function)


def _named(name: str) -> Any:
    """What goes by name, where it comes back."""
    try:
        return functions.arriving.place.namespace[name]
    except KeyError:
        raise LookupError(f"it needs {name}, which is not back") from None

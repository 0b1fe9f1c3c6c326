"""Values on their way from one kernel's namespace to another's, in a file.

Comes in: values by name. Goes out: a file with their pickles, and those values again in another namespace. Functions
and classes go by value, with the global names that they read; where they arrive, that namespace is their globals.
The buffers of arrays and frames lie in the file as they are, and are mapped, not read: nobody copies them.

The format: eight bytes of magic, the number of parts, the length of each, all as 64-bit numbers; then the parts, each
at a multiple of 64 bytes. The first part is a stream of pickles: what the sender's `sys.path` holds, the values by
name, then what they need, by name, in as many dicts as it takes. The other parts are their buffers.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import stat
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from types import CellType, FunctionType
from typing import Any, Protocol

from codeact_kernel.inkernel import functions
from codeact_kernel.inkernel.toolbox import TOOL, Group, Toolbox, base_name, lookup

MAGIC = b"ckparcel"
ALIGNED = 64
"""Bytes: what vector instructions want of an array's start."""
StandIn = Callable[[str, Any], Any]
"""Makes what travels instead of a named value that cannot be pickled; None where there is no such thing."""


class Place(Protocol):
    """Where values arrive."""

    @property
    def namespace(self) -> dict[str, Any]:
        """The user's namespace."""

    def proxy(self, *about: Any) -> Any:
        """What stands for an object of another kernel."""


class CannotTravel(TypeError):
    """Some values cannot be passed. The text has a line for each: its name, and why."""

    __module__ = "__main__"


class Trip:
    """One journey of values that belong together: what they share, they share where they arrive, too.

    Args:
        namespace: Where they come from.
        hidden: The names in it that are not the user's, and their values.
        stand_in: As `StandIn`.
    """

    def __init__(self, namespace: dict[str, Any], hidden: Mapping[str, Any], stand_in: StandIn) -> None:
        self._namespace = namespace
        self._hidden = hidden
        self._stand_in = stand_in
        self.values: dict[str, Any] = {}
        """All that travels, by name."""
        self.tools: list[str] = []
        """The host's tools that are in it, by name."""
        self.stand_ins: dict[str, Any] = {}
        """What travels instead of a value, by name."""
        self._needed: dict[str, str] = {}
        """Global names that are needed, and the function that needs each."""

    def pack(self, values: Mapping[str, Any]) -> list[Any]:
        """Pickle values, and what they need.

        Args:
            values: The values by name.

        Returns:
            The parts of a file.

        Raises:
            CannotTravel: If one of them cannot be passed.
        """
        while True:
            self.values, self.tools, self._needed = {}, [], {}
            try:
                return self._pack(dict(values))
            except Exception as error:
                self._replace(error)

    def _pack(self, values: dict[str, Any]) -> list[Any]:
        stream, buffers = io.BytesIO(), []  # type: ignore[var-annotated]
        pickler = pickler_class()(self, stream, buffers.append)
        pickler.dump(list(sys.path))
        while values or not self.values:
            self.values |= values
            pickler.dump({name: self.stand_ins.get(name, value) for name, value in values.items()})
            names = [name for name in self._needed if name not in self.values]
            values = {name: self._namespace[name] for name in names}
            if not values:
                break
        return [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]

    def _replace(self, error: Exception) -> None:
        """Find what cannot be pickled, and something that travels instead.

        Raises:
            CannotTravel: If there is nothing for one of them.
        """
        left, looked_at, replaced = [], set(), len(self.stand_ins)
        to_look_at = dict(self.values)
        while to_look_at:
            name, value = to_look_at.popitem()
            looked_at.add(name)
            if name in self.stand_ins:
                continue
            why = self._why_not(value)
            to_look_at |= {
                needed: self._namespace[needed] for needed in self._needed if needed not in looked_at
            }
            if why is None:
                continue
            stand_in = self._stand_in(name, value)
            if stand_in is None:
                left.append(f"{self._whose(name)}: {why}")
            else:
                self.stand_ins[name] = stand_in
        if left or len(self.stand_ins) == replaced:
            raise CannotTravel(
                "\n".join(sorted(left)) or f"the values cannot be passed together: {_told(error)}"
            )

    def _why_not(self, value: Any) -> str | None:
        try:
            pickler_class()(self, io.BytesIO(), lambda buffer: None).dump(value)
        except Exception as error:
            return f"a {type(value).__module__}.{type(value).__qualname__}, {_told(error)}"
        return None

    def _whose(self, name: str) -> str:
        return f"{name}, which {self._needed[name]} needs" if name in self._needed else name

    def reduce(self, value: Any) -> Any:
        """As `Pickler.reducer_override`."""
        kind = type(value)
        tool = getattr(value, TOOL, None) if kind in (FunctionType, Group, Toolbox) else None
        if tool is not None:
            self._note_tool(tool)
            return find, (tool,)
        if kind is FunctionType:
            if value.__globals__ is self._namespace:
                self._note_needs(value)
                return functions.parts_of(value)
        elif kind is CellType:
            return functions.parts_of_cell(value)
        return NotImplemented

    def _note_needs(self, function: FunctionType) -> None:
        for name in functions.reads(function.__code__):
            if name not in self._namespace:
                continue
            value = self._namespace[name]
            if name not in self._hidden or self._hidden[name] is not value:
                self._needed.setdefault(name, function.__qualname__)
            elif hasattr(value, TOOL):
                self._note_tool(name)

    def _note_tool(self, name: str) -> None:
        name = base_name(name)
        if name not in self.tools:
            self.tools.append(name)


def write(file: str, parts: Sequence[Any], magic: bytes = MAGIC) -> None:
    """Write a parcel.

    Args:
        file: Where to. Nothing is there yet.
        parts: Its parts.
        magic: What it begins with.
    """
    lengths = [memoryview(part).nbytes for part in parts]
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as out:
        out.write(magic + struct.pack(f"<{len(parts) + 1}q", len(parts), *lengths))
        for part in parts:
            out.write(b"\0" * (-out.tell() % ALIGNED))
            out.write(part)


def read(file: str, place: Place) -> list[dict[str, Any]]:
    """Read a parcel of a kernel that may do no less than this one: its pickles are code. Nothing is bound.

    Args:
        file: Where it lies. It may be removed as soon as this returns.
        place: Where its values arrive.

    Returns:
        The values by name; then what they need, by name, in as many dicts as there were.

    Raises:
        ValueError: If it is no parcel, or not whole.
        Exception: Whatever making one of the values raises.
    """
    with open_file(file) as opened:
        whole = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY))
    stream, *buffers = parts_of(whole, MAGIC)
    unpickler = pickle.Unpickler(io.BytesIO(stream), buffers=buffers)
    before, functions.arriving.place = getattr(functions.arriving, "place", None), place
    try:
        sys.path += [path for path in unpickler.load() if path not in sys.path]
        return list(_each(unpickler))
    finally:
        functions.arriving.place = before


def open_file(file: str) -> io.BufferedReader:
    """Open a parcel. Whoever has made it may have put a link, a pipe or a device there.

    Args:
        file: Where it lies.

    Raises:
        OSError: If it is not there, or is a link.
        ValueError: If it is no file.
    """
    fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ValueError("this is no file")
    return open(fd, "rb")


def parts_of(whole: memoryview, magic: bytes) -> list[memoryview]:
    """The parts of a parcel, at least one.

    Args:
        whole: All of the file.
        magic: What it has to begin with.

    Raises:
        ValueError: If it is none, or what it says of itself is not so.
    """
    if bytes(whole[:8]) != magic:
        raise ValueError("this is no parcel")
    (count,) = struct.unpack_from("<q", whole, 8) if len(whole) >= 16 else (0,)
    if not 0 < count <= (len(whole) - 16) // 8:
        raise ValueError("the parcel is not whole")
    at, parts = 16 + 8 * count, []
    for length in struct.unpack_from(f"<{count}q", whole, 16):
        at += -at % ALIGNED
        if not 0 <= length <= len(whole) - at:
            raise ValueError("the parcel is not whole")
        parts.append(whole[at : at + length])
        at += length
    return parts


def _each(unpickler: pickle.Unpickler) -> Iterator[dict[str, Any]]:
    try:
        while True:
            yield unpickler.load()
    except EOFError:
        return


def pickler_class() -> Any:
    """Cloudpickle's pickler with ways of our own. Made late: a foreign interpreter has no cloudpickle at first."""
    global _pickler
    if _pickler is None:
        base: Any = import_module("cloudpickle").Pickler

        class Pickler(base):  # type: ignore[misc]
            def __init__(self, trip: Trip, file: Any, take: Callable[[Any], object]) -> None:
                super().__init__(file, protocol=5, buffer_callback=take)
                self._trip = trip

            def reducer_override(self, obj: Any) -> Any:
                reduced = self._trip.reduce(obj)
                return super().reducer_override(obj) if reduced is NotImplemented else reduced

        _pickler = Pickler
    return _pickler


_pickler: Any = None


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def find(name: str) -> Any:
    """What goes by name: the host's tools, groups of them, and `self`."""
    return lookup(functions.arriving.place.namespace, name)


def the_agent() -> Any:
    """What `self` is where it arrives."""
    return find("self")


def proxy(*about: Any) -> Any:
    """What stands for an object of another kernel where it arrives."""
    return functions.arriving.place.proxy(*about)

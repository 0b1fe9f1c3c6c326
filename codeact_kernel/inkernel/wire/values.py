"""Values as JSON: the arguments and results of calls over the bridge.

Comes in: a value, or what `pack` made of one. Goes out: plain JSON, or a value that is as good as the first. Nothing is
pickled, so reading what the other side has sent runs no code of its choosing.
"""

from __future__ import annotations

import base64
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from codeact_kernel.inkernel.wire import objects, plain

TAG = "$codeact"
DEEPEST = 100
"""Levels of lists and dicts within each other; ours, far from where Python's JSON gives up."""
_GROUPS: tuple[type, ...] = (tuple, set, frozenset)
_RAW = "raw"
"""The kind of bytes that lie beside the JSON."""


@dataclass(frozen=True, slots=True)
class Way:
    """How bytes travel, and what is no data."""

    put: Callable[[bytes], Any] = lambda data: base64.b64encode(data).decode("ascii")
    """Gives what JSON carries for the bytes of an array, a frame or an image."""
    get: Callable[[Any], bytes] = base64.b64decode
    """Gives those bytes again."""
    large: int | None = None
    """Plain bytes of this many and more go that way, too; None for none."""
    first: Callable[[Any], tuple[str, Any] | None] = lambda value: None
    """Gives the kind of what must not even be looked at, and what JSON carries for it; None for all else."""
    last: Callable[[Any], tuple[str, Any] | None] = lambda value: None
    """As `first`, of what is no data; None for what cannot travel."""
    make: Callable[[str, Any], Any] = lambda kind, of: None
    """Makes that again; None for what is of no such kind."""


_IN_TEXT = Way()


def pack(value: Any, path: str = "value", way: Way = _IN_TEXT) -> Any:
    """Turn a value into what JSON carries, so that `unpack` gives it back.

    Beyond JSON's own shapes it carries tuples, named tuples, sets, bytes, complex numbers, dates, times, decimals,
    fractions, UUIDs, paths, ranges, dicts with keys that are no strings, dataclasses and models of pydantic, arrays of
    NumPy, frames (of pandas, polars, pyarrow, and whatever speaks Arrow), images of Pillow and figures of matplotlib.

    Args:
        value: What to send.
        path: How to call it in an error message.
        way: How bytes travel, and what is no data.

    Returns:
        Dicts with string keys, lists, strings, numbers, booleans and None.

    Raises:
        TypeError: If something in it cannot travel; the message names it.
    """
    return _pack(value, path, DEEPEST, way)


def pack_name(name: str) -> str:
    """A name that JSON can carry as a key.

    Args:
        name: The name of an argument.

    Raises:
        TypeError: If it cannot; says so.
    """
    if not plain.SCALARS[str](name):
        raise TypeError(f"the name {name!a} of an argument is no text that can travel")
    return name


def _pack(value: Any, path: str, deeper: int, way: Way) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind in plain.SCALARS:
        return value if plain.SCALARS[kind](value) else _tagged(plain.write_odd(value))
    if deeper == 0:
        raise TypeError(f"{path:.200} lies {DEEPEST} levels deep, or in itself; nothing that deep can travel")
    deeper -= 1
    if isinstance(value, dict):
        if all(type(key) is str and plain.SCALARS[str](key) for key in value) and TAG not in value:
            return {key: _pack(item, f"{path}[{key!r}]", deeper, way) for key, item in value.items()}
        pairs = [
            [_pack(k, f"a key of {path}", deeper, way), _pack(v, f"{path}[{k!r}]", deeper, way)]
            for k, v in value.items()
        ]
        return {TAG: "dict", "of": pairs}
    if isinstance(value, list):
        return [_pack(item, f"{path}[{i}]", deeper, way) for i, item in enumerate(value)]
    if isinstance(value, tuple | set | frozenset):
        items = [_pack(item, f"an item of {path}", deeper, way) for item in value]
        names = getattr(value, "_fields", None)
        if isinstance(value, tuple) and names:
            return {TAG: "named tuple", "of": [kind.__name__, list(names), items]}
        return {TAG: next(base for base in _GROUPS if isinstance(value, base)).__name__, "of": items}
    if way is not _IN_TEXT and (found := way.first(value)) is not None:
        return _tagged(found)
    if isinstance(value, Enum):
        return _pack(value.value, path, deeper, way)
    for base in (bool, int, float, str):
        if isinstance(value, base):
            return _pack(base(value), path, deeper, way)
    if hasattr(value, "item") and callable(value.item) and getattr(value, "shape", None) == ():
        return _pack(value.item(), path, deeper, way)
    if way.large is not None and isinstance(value, bytes | bytearray) and len(value) >= way.large:
        return {TAG: _RAW, "of": way.put(bytes(value))}
    if (written := plain.write(value)) is not None:
        return _tagged(written)
    if (fields := objects.fields_of(value)) is not None:
        of = {name: _pack(part, f"{path}.{name}", deeper, way) for name, part in fields.items()}
        return {TAG: "record", "of": [kind.__name__, list(of.items())]}
    if (taken := objects.take_apart(value, path)) is not None:
        name, about, data = taken
        return {TAG: name, "of": [about, way.put(data)]}
    if (found := way.last(value)) is not None:
        return _tagged(found)
    raise TypeError(
        f"{path} is a {kind.__module__}.{kind.__qualname__}, which cannot travel as data; "
        "pass plain data (numbers, strings, bytes, lists, dicts), a dataclass or a frame"
    )


def _tagged(written: tuple[str, Any]) -> dict[str, Any]:
    return {TAG: written[0], "of": written[1]}


def unpack(value: Any, way: Way = _IN_TEXT) -> Any:
    """Give back what `pack` was given.

    Args:
        value: What came over the wire.
        way: How bytes have travelled, and what is no data.

    Returns:
        The value; bytearrays and memoryviews come back as bytes, members of an Enum as their values, objects as
        dataclasses with the same name, fields and values.

    Raises:
        ValueError: If it is nothing that `pack` writes, or cannot be made here; says why.
    """
    try:
        return _unpack(value, way)
    except RecursionError:
        raise ValueError("this lies deeper than anything that is sent") from None


def _unpack(value: Any, way: Way) -> Any:
    if isinstance(value, list):
        return [_unpack(item, way) for item in value]
    if not isinstance(value, dict):
        return value
    if TAG not in value:
        return {key: _unpack(item, way) for key, item in value.items()}
    kind = str(value[TAG])
    of: Any = value.get("of")
    build = _BUILDERS.get(kind)
    try:
        if build is not None:
            return build(of, way)
        if kind in plain.READERS:
            return plain.READERS[kind](of)
        if kind in objects.MAKERS:
            return objects.MAKERS[kind](of[0], way.get(of[1]))
        if (made := way.make(kind, of)) is not None:
            return made
    except ImportError as error:
        raise ValueError(f"a {kind} has come, and {error.name} is not installed here") from error
    except (ValueError, RecursionError):
        raise
    except Exception as error:
        # Whatever a foreign library says of data that it cannot read.
        raise ValueError(f"this is no {kind}: {error}") from error
    raise ValueError(f"{kind!r} is no kind of value that travels")


_BUILDERS: dict[Any, Callable[[Any, Way], Any]] = {
    "dict": lambda of, way: {_unpack(k, way): _unpack(v, way) for k, v in of},
    "tuple": lambda of, way: tuple(_unpack(item, way) for item in of),
    "set": lambda of, way: {_unpack(item, way) for item in of},
    "frozenset": lambda of, way: frozenset(_unpack(item, way) for item in of),
    "named tuple": lambda of, way: namedtuple(of[0], of[1], rename=True)(*(_unpack(i, way) for i in of[2])),
    "record": lambda of, way: objects.record(of[0], {name: _unpack(part, way) for name, part in of[1]}),
    _RAW: lambda of, way: way.get(of),
}


def size_of(packed: Any) -> int:
    """About how many bytes a packed value takes as JSON, found without writing it.

    Args:
        packed: What `pack` made.
    """
    if isinstance(packed, str):
        return len(packed) + 2
    if isinstance(packed, list):
        return 2 + sum(size_of(item) + 2 for item in packed)
    if isinstance(packed, dict):
        return 2 + sum(len(key) + 6 + size_of(item) for key, item in packed.items())
    return 8


def describe(value: Any) -> str:
    """Say what a value is, without its content.

    Args:
        value: Any value.

    Returns:
        Its type, and its shape, columns or length where it has some.
    """
    kind = type(value)
    name = (
        kind.__name__
        if kind.__module__ == "builtins"
        else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    )
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and all(isinstance(n, int) for n in shape):
        columns = getattr(value, "columns", None)
        listed = f", columns {', '.join(map(str, list(columns)[:20]))}" if columns is not None else ""
        return f"{name} of shape {shape}{listed}"
    if isinstance(value, str | bytes | list | tuple | dict | set | frozenset):
        return f"{name} of length {len(value)}"
    return name

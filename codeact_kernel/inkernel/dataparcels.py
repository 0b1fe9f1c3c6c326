"""Values on their way to a kernel that may do more than this one, or from one that may do less: data, and no code.

Comes in: values by name. Goes out: a file that is read without pickle, and those values again. What a hostile kernel
has put there instead is an error, and never more.

The format is that of a parcel, with another magic: the number of parts, the length of each, the parts. The first part
is JSON as `wire.pack` writes it, the others are the bytes of arrays, frames and images.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.parcels import CannotTravel, open_file, parts_of, write
from codeact_kernel.inkernel.proxies import Lent, Proxy

MAGIC = b"ckvalues"
MOST = 2**30
"""Bytes of a file that is read. Ours: what is larger lies better in a file of the workspace."""
LARGE = 4096
"""Bytes from which plain bytes lie beside the JSON, and not in it as text."""
_HANDLE = "handle"
"""The kind of what stands for an object of another kernel."""
_WORDS = 200
"""Characters of a name that somebody else has chosen."""
_METHODS = 1000
"""Methods that an object may be said to have."""


class Place(Protocol):
    """Where values arrive."""

    def proxy(self, *about: Any) -> Any:
        """What stands for an object of another kernel."""


def write_data(file: str, values: Mapping[str, Any], lent: Lent | None) -> None:
    """Write values as data.

    Args:
        file: Where to.
        values: The values by name.
        lent: Lends what is no data; None where nothing of this kernel's own can be lent.

    Raises:
        CannotTravel: If one of them is no data.
    """
    parts: list[bytes] = []
    name = ""

    def put(data: bytes) -> int:
        parts.append(data)
        return len(parts)

    def first(value: Any) -> tuple[str, Any] | None:
        return (_HANDLE, list(value._about)) if isinstance(value, Proxy) else None

    def last(value: Any) -> tuple[str, Any] | None:
        stand_in = None if lent is None else lent.lend(name, value)
        return None if stand_in is None else (_HANDLE, list(stand_in.about))

    way, packed, faults = wire.Way(put=put, large=LARGE, first=first, last=last), {}, []
    for name, value in values.items():
        try:
            packed[name] = wire.pack(value, name, way)
        except TypeError as error:
            faults.append(str(error))
    if faults:
        raise CannotTravel("\n".join(faults))
    whole = [wire.to_json(packed), *parts]
    if (size := sum(map(len, whole))) > MOST:
        raise CannotTravel(f"{', '.join(values)}: {size:,} bytes, and {MOST:,} at most travel as data")
    write(file, whole, MAGIC)


def read_data(file: str, place: Place) -> dict[str, Any]:
    """Read what another kernel has written as data.

    Args:
        file: Where it lies.
        place: Where its values arrive.

    Returns:
        The values by name.

    Raises:
        ValueError: If it is no such file, or not whole, or holds what is not sent; says why.
    """
    text, *parts = parts_of(memoryview(_read(file)), MAGIC)

    def get(number: Any) -> bytes:
        if type(number) is not int or not 0 < number <= len(parts):
            raise ValueError(f"there is no part {number!r:.40} in it")
        return bytes(parts[number - 1])

    def make(kind: str, of: Any) -> Any:
        return place.proxy(*_checked(of)) if kind == _HANDLE else None

    try:
        packed = json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"what it says of its values cannot be read: {error}") from None
    if not isinstance(packed, dict):
        raise ValueError("it holds no values by name")
    way = wire.Way(get=get, make=make)
    return {name: wire.unpack(value, way) for name, value in packed.items()}


def _read(file: str) -> bytes:
    with open_file(file) as opened:
        size = os.fstat(opened.fileno()).st_size
        if size > MOST:
            raise ValueError(f"it has {size:,} bytes, and {MOST:,} at most are read")
        # Once, and no more than it said: it may grow or shrink meanwhile.
        return opened.read(size)


def _checked(about: Any) -> Sequence[Any]:
    """What stands for an object of another kernel, as far as it can be what `Lent.lend` makes."""
    owner, whose, number, kind, methods, lane = about
    whole = type(owner) is int and type(number) is int and isinstance(methods, dict)
    if not whole or lane not in ("async", "main", "worker") or len(methods) > _METHODS:
        raise ValueError("it stands for nothing")
    named = all(name.isidentifier() and type(awaited) is bool for name, awaited in methods.items())
    if not named or not all(isinstance(text, str) and text.isprintable() for text in (whose, kind)):
        raise ValueError("it stands for nothing")
    return owner, whose[:_WORDS], number, kind[:_WORDS], methods, lane

"""The standard library's own values as JSON: what has one obvious way to be written down.

Comes in: a value. Goes out: the name of its kind and what is written, or the value again.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

_HALVES = re.compile("[\ud800-\udfff]")
_LONGEST = 10_000
"""Bits of a whole number that is written with digits; Python refuses to read more than 4,300 digits."""

SCALARS: dict[type, Callable[[Any], bool]] = {
    str: lambda value: value.isascii() or not _HALVES.search(value),
    int: lambda value: value.bit_length() <= _LONGEST,
    float: math.isfinite,
}
"""JSON's own kinds, each with whether JSON as others read it can carry a value."""


def write_odd(value: str | float) -> tuple[str, Any]:
    """Write what JSON's own kind cannot carry: halves of surrogate pairs, very long numbers, NaN and the infinities.

    Args:
        value: A str, int or float.

    Returns:
        The name of its kind and what JSON carries.
    """
    if isinstance(value, str):
        return "text", base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")
    return ("integer", hex(value)) if isinstance(value, int) else ("number", repr(value))


_WRITERS: tuple[tuple[type | tuple[type, ...], str, Callable[[Any], Any]], ...] = (
    ((bytes, bytearray, memoryview), "bytes", lambda value: base64.b64encode(value).decode("ascii")),
    (complex, "complex", lambda value: [repr(value.real), repr(value.imag)]),
    (datetime, "datetime", lambda value: [datetime.isoformat(value), value.fold]),
    (date, "date", date.isoformat),
    (time, "time", lambda value: [value.isoformat(), value.fold]),
    (timedelta, "timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    (Decimal, "decimal", str),
    (Fraction, "fraction", lambda value: [value.numerator, value.denominator]),
    (UUID, "uuid", str),
    (PurePath, "path", str),
    (range, "range", lambda value: [value.start, value.stop, value.step]),
)

READERS: dict[Any, Callable[[Any], Any]] = {
    "text": lambda of: base64.b64decode(of).decode("utf-8", "surrogatepass"),
    "integer": lambda of: int(of, 16),
    "number": float,
    "bytes": base64.b64decode,
    "complex": lambda of: complex(*map(float, of)),
    "datetime": lambda of: datetime.fromisoformat(of[0]).replace(fold=of[1]),
    "date": date.fromisoformat,
    "time": lambda of: time.fromisoformat(of[0]).replace(fold=of[1]),
    "timedelta": lambda of: timedelta(*of),
    "decimal": Decimal,
    "fraction": lambda of: Fraction(*of),
    "uuid": UUID,
    "path": Path,
    "range": lambda of: range(*of),
}
"""What reads each kind of value. A time zone comes back as its offset."""


def write(value: Any) -> tuple[str, Any] | None:
    """Write a value.

    Args:
        value: Any value.

    Returns:
        The name of its kind and what JSON carries, or None for what is not of these kinds.
    """
    for kinds, name, writer in _WRITERS:
        # pandas calls its mark for no time a datetime; it equals nothing, and has no way to be written.
        if isinstance(value, kinds) and not (isinstance(value, datetime) and value != value):
            return name, writer(value)
    return None

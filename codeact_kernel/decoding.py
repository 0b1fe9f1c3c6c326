"""Events out of JSON: the inverse of `events.to_json`.

Comes in: what `json.loads` made of a line. Goes out: the event, as it was. Fields that a later version has added are
passed over, and those that an earlier one lacked take their defaults; what is missing without a default, and a kind
that nobody knows, is a `ValueError`. A value in the wrong place is one, too: a journal can be anybody's.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from codeact_kernel.events import Event

Decode = Callable[[Any], Any]


def from_json(value: Any) -> Event:
    """Read an event.

    Args:
        value: What `to_json` made, after `json.dumps` and `json.loads`.

    Raises:
        ValueError: If it is no event, or of a kind that is not known here.
    """
    event: Event = _decoder(Event)(value)
    return event


def decode(kind: Any, value: Any) -> Any:
    """Read a part of an event.

    Args:
        kind: Its type, or a union of types: `Entry`, say.
        value: As in `from_json`.

    Raises:
        ValueError: If it is none.
    """
    return _decoder(kind)(value)


@cache
def _decoder(hint: Any) -> Decode:
    """What reads a value of a type, as its annotation tells it."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if hint is None or hint is types.NoneType:
        return _none
    if origin in (Union, types.UnionType):
        return _union(inner)
    if origin is Literal:
        return _one_of(inner)
    if origin is tuple:
        return _tuple(inner)
    if origin is dict:
        return _dict
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint)
    return _plain(hint)


def _none(value: Any) -> None:
    if value is not None:
        raise ValueError(f"{value!r:.80} is not null")


def _plain(kind: type[Any]) -> Decode:
    def read(value: Any) -> Any:
        if type(value) is kind:
            return value
        if kind is float and type(value) is int:
            return float(value)
        raise ValueError(f"{value!r:.80} is no {kind.__name__}")

    return read


def _one_of(allowed: tuple[Any, ...]) -> Decode:
    def read(value: Any) -> Any:
        if value not in allowed:
            raise ValueError(f"{value!r:.80} is none of {allowed}")
        return value

    return read


def _dict(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.80} is no object")
    return value


def _tuple(inner: tuple[Any, ...]) -> Decode:
    """A tuple of any length, or one whose places have types of their own."""
    repeated = len(inner) == 2 and inner[1] is ...
    readers = [_decoder(kind) for kind in inner if kind is not ...]

    def read(value: Any) -> Any:
        if not isinstance(value, list) or not (repeated or len(value) == len(readers)):
            raise ValueError(f"{value!r:.80} is no list of the right length")
        each = readers * len(value) if repeated else readers
        return tuple(reader(item) for reader, item in zip(each, value, strict=True))

    return read


def _union(inner: tuple[Any, ...]) -> Decode:
    """One of several: dataclasses by their names, anything else by trying."""
    kinds: dict[str, Any] = {kind.__name__: kind for kind in inner if isinstance(kind, type)}
    kinds = {name: kind for name, kind in kinds.items() if dataclasses.is_dataclass(kind)}
    others = [kind for kind in inner if kind not in kinds.values()]

    def read(value: Any) -> Any:
        name = value.get("type") if isinstance(value, dict) else None
        if isinstance(name, str) and name in kinds:
            return _decoder(kinds[name])(value)
        for kind in others:
            try:
                return _decoder(kind)(value)
            except ValueError:
                continue
        raise ValueError(f"{value!r:.80} is none of {', '.join(map(str, inner))}")

    return read


def _dataclass(kind: Any) -> Decode:
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    required = {
        f.name
        for f in fields
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }

    def read(value: Any) -> Any:
        if not isinstance(value, dict) or value.get("type") != kind.__name__:
            raise ValueError(f"{value!r:.80} is no {kind.__name__}")
        if missing := required - value.keys():
            raise ValueError(f"{kind.__name__} lacks {', '.join(sorted(missing))}")
        return kind(**{name: _decoder(hint)(value[name]) for name, hint in hints.items() if name in value})

    return read

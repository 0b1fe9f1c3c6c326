"""What host and kernel agree on: names on the wire, and values as JSON.

Comes in: nothing. Goes out: message types, metadata keys, and `pack`/`unpack` for the arguments and results
of calls over the bridge. The only module of this room that the host imports.

Our own fields travel under one key, `codeact`, in the metadata of Jupyter's ordinary messages:

- execute_request: `id` (the block's name), `reply` (the number of the model's reply it came in), `order`
  ("names" or "free"), `lane` (a pinned lane, or None)
- every output on iopub: `n`, its number within the block, counted from 0
- execute_input: `lane`
- execute_reply: `outputs` (how many there were), `lane`, `started`, `ended`, `error` (the traceback for the
  model), `notes`, `names` (what the namespace holds), `skipped` (why it did not run)

Our own message types travel on the control channel. The host opens the bridge; from then on the kernel sends
`CALL` to the identity that opened it, and the host answers each with `RETURN`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

KEY = "codeact"
PROTOCOL = 1
"""Raised when one side no longer understands the other's fields."""

OPEN = "codeact_open_request"
OPEN_REPLY = "codeact_open_reply"
SEED = "codeact_seed_request"
SEED_REPLY = "codeact_seed_reply"
CALL = "codeact_call"
RETURN = "codeact_return"
ABANDON = "codeact_abandon"
"""From kernel to host: nobody waits for this call any more."""
END_CHILDREN = "codeact_end_children_request"
END_CHILDREN_REPLY = "codeact_end_children_reply"
"""To {"msg_id"}, or {} for the children of all: {"status": "ok", "ended": [process ids]}, when they have ended."""

_TAG = "$codeact"


def pack(value: Any, path: str = "value") -> Any:
    """Turn a value into what JSON carries, so that `unpack` gives it back.

    Beyond JSON's own shapes it carries tuples, sets, bytes, complex numbers, and dicts with keys that are no
    strings.

    Args:
        value: What to send.
        path: How to call it in an error message.

    Returns:
        Dicts with string keys, lists, strings, numbers, booleans and None.

    Raises:
        TypeError: If something in it cannot travel; the message names it.
    """
    if value is None or isinstance(value, bool | str) or type(value) in (int, float):
        return value
    if isinstance(value, dict):
        if all(type(key) is str for key in value) and _TAG not in value:
            return {key: pack(item, f"{path}[{key!r}]") for key, item in value.items()}
        pairs = [[pack(k, f"a key of {path}"), pack(v, f"{path}[{k!r}]")] for k, v in value.items()]
        return {_TAG: "dict", "of": pairs}
    if isinstance(value, list):
        return [pack(item, f"{path}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, tuple | set | frozenset):
        return {_TAG: type(value).__name__, "of": [pack(item, f"an item of {path}") for item in value]}
    if isinstance(value, bytes | bytearray | memoryview):
        return {_TAG: "bytes", "of": base64.b64encode(value).decode("ascii")}
    if isinstance(value, complex):
        return {_TAG: "complex", "of": [value.real, value.imag]}
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if hasattr(value, "item") and callable(value.item) and getattr(value, "shape", None) == ():
        return pack(value.item(), path)
    raise TypeError(
        f"{path} is a {type(value).__module__}.{type(value).__qualname__}, which cannot travel between the "
        "kernel and the host; pass plain data (numbers, strings, bytes, lists, dicts)"
    )


_BUILDERS: dict[str, Callable[[Any], Any]] = {
    "dict": lambda of: {unpack(k): unpack(v) for k, v in of},
    "tuple": lambda of: tuple(unpack(item) for item in of),
    "set": lambda of: {unpack(item) for item in of},
    "frozenset": lambda of: frozenset(unpack(item) for item in of),
    "bytes": base64.b64decode,
    "complex": lambda of: complex(*of),
}


def unpack(value: Any) -> Any:
    """Give back what `pack` was given.

    Args:
        value: What came over the wire.

    Returns:
        The value; bytearrays and memoryviews come back as bytes, named tuples as tuples.

    Raises:
        ValueError: If it is nothing that `pack` writes.
    """
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: unpack(item) for key, item in value.items()}
    build = _BUILDERS.get(value[_TAG])
    if build is None:
        raise ValueError(f"{value[_TAG]!r} is no kind of value that travels")
    return build(value.get("of"))

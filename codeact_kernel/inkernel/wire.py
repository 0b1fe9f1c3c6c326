"""What host and kernel agree on: names on the wire, and values as JSON.

Comes in: nothing. Goes out: message types, metadata keys, and `pack`/`unpack` for the arguments and results
of calls over the bridge. The only module of this room that the host imports.

Our own fields travel under one key, `codeact`, in the metadata of Jupyter's ordinary messages:

- execute_request: `id` (the block's name), `reply` (the number of the model's reply it came in), `order`
  ("names" or "free"), `lane` (a pinned lane, or None)
- every output on iopub: `n`, its number within the block, counted from 0. One of type `LOST` stands for outputs
  that were dropped: `outputs`, `characters`, `lines` say how many
- execute_input: `lane`
- execute_reply: `outputs` (how many there were), `lane`, `started`, `ended`, `error` (the traceback for the
  model), `notes`, `names` (what the namespace holds), `skipped` (why it did not run)

Our own message types travel on the control channel. The host opens the bridge; from then on the kernel sends
`CALL` to the identity that opened it, and the host answers each with `RETURN`. The same identity says with `ACK`
what it has of each request, (phase, next output's number) by msg_id; what it does not confirm is told again with
`STATE`, and can be asked for with `RESEND` and `REPLY_AGAIN`.
"""

from __future__ import annotations

import base64
import json
import math
import numbers
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any

KEY = "codeact"
PROTOCOL = 2
"""Raised when one side no longer understands the other's fields."""

OPEN = "codeact_open_request"
OPEN_REPLY = "codeact_open_reply"
SEED = "codeact_seed_request"
SEED_REPLY = "codeact_seed_reply"
CALL = "codeact_call"
RETURN = "codeact_return"
ABANDON = "codeact_abandon"
"""From kernel to host: nobody waits for this call any more."""
ACK = "codeact_ack"
"""From host to kernel: {"have": {msg_id: [phase, next]}}, what it has taken in."""
STATE = "codeact_state"
"""From kernel to host: {"states": {msg_id: {"phase", "outputs": how many there are, "lane", "ran": the seconds since
its first line of code}}}, where it has not heard that the host knows."""
RESEND = "codeact_resend_request"
RESEND_REPLY = "codeact_resend_reply"
"""To {"msg_id", "from", "to"}: {"status": "ok" or "unknown", "first": the first number that is there, "outputs":
[{"n", "msg_type", "content"}, …]: as many as make a page}."""
REPLY_AGAIN = "codeact_reply_again_request"
REPLY_AGAIN_REPLY = "codeact_reply_again_reply"
"""To {"msg_id"}: {"status": "ended", "running", "waiting" or "unknown", "state": as in `STATE`, "content" and
"metadata": the execute_reply's, of one that ended}."""
LOST = "codeact_lost"

WAITING, RUNNING, ENDED = 0, 1, 2
"""The phases of a request."""
END_CHILDREN = "codeact_end_children_request"
END_CHILDREN_REPLY = "codeact_end_children_reply"
"""To {"msg_id"}, or {} for the children of all: {"status": "ok", "ended": [process ids]}, when they have ended."""

_TAG = "$codeact"
_DELIMITER = b"<IDS|MSG>"
"""What stands between the identities and the signature of a message, in Jupyter's protocol."""
_HALVES = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def clean(value: Any) -> Any:
    """Make a value plain JSON that every packer takes.

    Args:
        value: Anything.

    Returns:
        The value, with a replacement mark for each half of a surrogate pair, null for NaN and the infinities, and
        the `repr` of what is no JSON.
    """
    if isinstance(value, str):
        return _HALVES.sub(_REPLACEMENT, value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {clean(key if isinstance(key, str) else str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return clean(_as_json(value))


def _as_json(value: Any) -> Any:
    """What Jupyter's own packer makes of a value that is no JSON; its `repr` where that knows nothing."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return list(value) if isinstance(value, Iterable) else repr(value)


def to_json(content: Any) -> bytes:
    """Write content as JSON, whatever is in it.

    Args:
        content: Anything; what JSON cannot hold is replaced as `clean` does.
    """
    try:
        return json.dumps(content, default=_as_json, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        return json.dumps(clean(content), ensure_ascii=False, allow_nan=False).encode()


def frames_of(session: Any, message: dict[str, Any], idents: Sequence[bytes] = ()) -> list[bytes]:
    """Write a message for its socket.

    Args:
        session: Jupyter's session, which signs it.
        message: As `session.msg` makes it; its content and metadata may hold anything.
        idents: What stands before it: the way to a peer, or a topic.
    """
    content = message["content"]
    packed = content if isinstance(content, bytes) else to_json(content)
    try:
        frames: list[bytes] = session.serialize({**message, "content": packed}, list(idents))
    except (TypeError, ValueError):
        metadata, parent = clean(message["metadata"]), clean(message["parent_header"])
        cleaned = {**message, "content": packed, "metadata": metadata, "parent_header": parent}
        frames = session.serialize(cleaned, list(idents))
    return frames


def kind_of(frames: Sequence[Any]) -> str:
    """The type of a message, from its header alone, before its signature is checked.

    Args:
        frames: The message as it came, its frames copied or not.

    Returns:
        The type, or an empty text for what is no message.
    """
    for at, frame in enumerate(frames[:-2]):
        if bytes(frame if isinstance(frame, bytes) else frame.buffer) == _DELIMITER:
            header = frames[at + 2]
            try:
                return str(
                    json.loads(header if isinstance(header, bytes) else bytes(header.buffer))["msg_type"]
                )
            except (ValueError, KeyError, TypeError):
                return ""
    return ""


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

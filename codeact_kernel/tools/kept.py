"""A call of a tool as the record keeps it, so that it can be read, and answered again.

Comes in: the arguments of a call, its result. Goes out: both as text, of bounded size.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

_KEPT = 16_384
"""Characters of the arguments, and of a result, that an event carries."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=lambda part: f"<{type(part).__name__}>")
_STRICT = json.JSONEncoder(ensure_ascii=False)


def kept_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, str]:
    """Write arguments down.

    Args:
        args: By place.
        kwargs: By name.

    Returns:
        As code would write them, with JSON for values; of a long text the beginning, and then the digest of all.
    """
    text = ", ".join([*map(_whole, args), *(f"{key}={_whole(value)}" for key, value in kwargs.items())])
    if len(text) <= _KEPT:
        return text, ""
    return text[:_KEPT], hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def kept_result(value: Any) -> str:
    """Write a result down.

    Args:
        value: The result.

    Returns:
        JSON that reads as the same value; empty where there is none, or it is long.
    """
    if isinstance(value, str) and len(value) > _KEPT:
        return ""
    pieces, size = [], 0
    try:
        for piece in _STRICT.iterencode(value):
            pieces.append(piece)
            size += len(piece)
            if size > _KEPT:
                return ""
        text = "".join(pieces)
        return text if bool(json.loads(text) == value) else ""
    except Exception:  # no JSON; or a comparison of anybody's, which may raise anything
        return ""


def _whole(value: Any) -> str:
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"

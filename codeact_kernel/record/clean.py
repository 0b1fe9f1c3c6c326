"""What a JSON file and its readers cannot hold, made harmless.

Comes in: any value that came from a model or a kernel. Goes out: the same as plain JSON: no lone surrogates
(no UTF-8 has them), no NUL (editors and databases stop at it), no NaN or infinity (JSON has none).
"""

from __future__ import annotations

import math
import re
from typing import Any

_UNWRITABLE = re.compile("[\ud800-\udfff\x00]")
REPLACEMENT = "\ufffd"
"""Unicode's own sign for a character that could not be kept."""


def clean_text(text: str) -> str:
    """Replace what cannot be written.

    Args:
        text: Any text.
    """
    return _UNWRITABLE.sub(REPLACEMENT, text)


def clean(value: Any) -> Any:
    """Make a value plain JSON.

    Args:
        value: Anything. What is no JSON becomes its `repr`; NaN and the infinities become null.
    """
    match value:
        case str():
            return clean_text(value)
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {clean_text(str(key)): clean(item) for key, item in value.items()}
        case list() | tuple():
            return [clean(item) for item in value]
        case _:
            return clean_text(repr(value))

"""MIME bundles, told in text.

Comes in: the data of a display or of a value. Goes out: its text where it has one that says something, and
otherwise one line that says what it is; the thing itself is in the record.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from typing import Any

_OPAQUE = re.compile(r"\s*<[^<>]*>\s*")
"""The text of an object that has none: `<IPython.core.display.HTML object>`."""
_HEADS = {"iVBORw0KGgo": (">II", 16), "R0lGOD": ("<HH", 6), "/9j/": ("", 0)}
"""How PNG, GIF and JPEG begin in base64, and where the first two say their width and height."""
_WORDED = ("text/markdown", "text/latex")


def is_picture(data: dict[str, Any]) -> bool:
    """Whether a bundle says more than its plain text can."""
    return "text/plain" not in data or any(mime.startswith("image/") for mime in data)


def bundle_text(data: dict[str, Any], where: str = "kept in the record") -> str:
    """Tell of a bundle.

    Args:
        data: Contents by MIME type, as Jupyter sends them: text, lists of lines, base64, or JSON.
        where: Where what a text cannot say is to be found.

    Returns:
        Its plain text, its Markdown or LaTeX where the plain text says nothing, or a line such as
        `[image/png 640x480, 12 kB: kept in the record]`.
    """
    words = _text(data.get("text/plain", ""))
    picture = next((mime for mime in data if mime.startswith("image/")), None)
    if picture is None and words and not (_OPAQUE.fullmatch(words) and len(data) > 1):
        return words
    if picture is None:
        worded = next((mime for mime in _WORDED if mime in data), None)
        if worded:
            return _text(data[worded])
    mime = picture or next((mime for mime in data if mime != "text/plain"), None)
    return f"[{mime}{_extent(data[mime])}: {where}]" if mime else words


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _extent(value: Any) -> str:
    """The size of an image in pixels where its head tells it, and how much there is of it."""
    text = _text(value)
    known = next((known for known in _HEADS if text.startswith(known)), None)
    if known is None:
        return f", {_bytes(len(text))}"
    form, at = _HEADS[known]
    try:
        pixels = struct.unpack_from(form, base64.b64decode(text[:40]), at)
    except (ValueError, struct.error):
        pixels = ()
    return f"{' {}x{}'.format(*pixels) if pixels else ''}, {_bytes(len(text) * 3 // 4)}"


def _bytes(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:,.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:,.1f} MB"

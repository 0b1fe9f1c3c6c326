"""How a notebook's file is laid out: to the byte as nbformat's writer does it.

Comes in: plain JSON. Goes out: its text. nbformat itself is not imported for that: beside JupyterLab its import builds
parsers for more than a second, in each run. A test holds the two together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_EIGHT_BITS = re.compile("[\x7f-\x9f]")
_SPLIT = ("application/javascript", "image/svg+xml")
"""The MIME types, beside those of texts, whose values lie in lines."""


def safe_json(text: str) -> str:
    """JSON with controls of eight bits escaped: it may hold them, but a terminal on which it is printed would obey."""
    return _EIGHT_BITS.sub(lambda control: f"\\u{ord(control[0]):04x}", text)


def laid_out(value: Any, depth: int = 0, lead: str = "") -> str:
    """A value as nbformat lays it out.

    Args:
        value: Plain JSON.
        depth: Columns by which the lines after the first are indented.
        lead: What stands before the first.
    """
    text = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True, separators=(",", ": "))
    return safe_json(lead + text.replace("\n", "\n" + " " * depth))


def in_lines(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell whose long texts are lists of their lines, as they lie in a file.

    Args:
        cell: The cell.
    """
    split = {**cell, "source": cell["source"].splitlines(True)}
    if "outputs" in cell:
        split["outputs"] = [_output(output) for output in cell["outputs"]]
    return split


def _output(output: Mapping[str, Any]) -> dict[str, Any]:
    if output["output_type"] == "stream":
        return {**output, "text": output["text"].splitlines(True)}
    if "data" in output:
        return {**output, "data": {mime: _value(mime, value) for mime, value in output["data"].items()}}
    return dict(output)


def _value(mime: str, value: Any) -> Any:
    is_split = isinstance(value, str) and (mime.startswith("text/") or mime in _SPLIT)
    return value.splitlines(True) if is_split else value

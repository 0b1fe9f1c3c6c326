"""What a client's model reads of this server before it calls anything: as little as will do.

Comes in: nothing. Goes out: the instructions, and each tool's name, description and schema. All of it fits 300 tokens;
what is not said here is said in answers, where it is needed.
"""

from __future__ import annotations

from typing import Any

INSTRUCTIONS = (
    "One live IPython namespace. Blocks run side by side; only what they print or display comes back."
)

WAIT = 30.0
"""Seconds that a call waits where it does not say; ours: half of the minute after which many clients give a call up."""

_TEXT, _SECONDS = {"type": "string"}, {"type": "number"}
_WAIT = {**_SECONDS, "default": int(WAIT)}


def _schema(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    # Some clients' models take no object without properties, and no property without a type.
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return schema


_RUN = (
    "Run Python as a block; top-level await works. If it outlasts `wait` seconds you get its id and its output so far, "
    "and it runs on until `timeout`."
)

TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "run_code": (
        _RUN,
        _schema(("code",), code=_TEXT, timeout=_SECONDS, wait=_WAIT, lane={**_TEXT, "enum": ["main"]}),
    ),
    "wait": (
        "Wait until a block ends or prints.",
        _schema(ids={"type": "array", "items": _TEXT}, seconds=_WAIT),
    ),
    "cancel": ("End a block.", _schema(("id",), id=_TEXT)),
    "variables": ("List names, types, sizes.", _schema()),
    "restart": ("Begin with an empty namespace.", _schema()),
    "save_notebook": ("Write all blocks to an .ipynb.", _schema(("path",), path=_TEXT)),
}
"""By name: the description and the schema of the arguments."""

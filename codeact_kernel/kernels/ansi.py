"""Terminal colours, taken out of a traceback that a kernel of another make has sent."""

from __future__ import annotations

import re
from typing import Any

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LINES = 30


def plain_traceback(content: dict[str, Any]) -> str:
    """Write the error of an `execute_reply` for the model.

    Args:
        content: The reply's content: ename, evalue, traceback.

    Returns:
        The last thirty lines of its traceback without colours, or its name and value where it has none.
    """
    lines = _ANSI.sub("", "\n".join(content.get("traceback") or [])).splitlines()
    if not lines:
        return f"{content.get('ename')}: {content.get('evalue')}"
    return "\n".join(lines[-_LINES:])

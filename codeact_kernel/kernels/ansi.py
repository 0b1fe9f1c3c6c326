"""Terminal colours, taken out of a traceback that a kernel of another make has sent."""

from __future__ import annotations

from typing import Any

from codeact_kernel.controls import plain

_LINES = 30


def plain_traceback(content: dict[str, Any]) -> str:
    """Write the error of an `execute_reply` for the model.

    Args:
        content: The reply's content: ename, evalue, traceback.

    Returns:
        The last thirty lines of its traceback without colours, or its name and value where it has none.
    """
    traceback = content.get("traceback")
    lines = plain("\n".join(map(str, traceback if isinstance(traceback, list) else ()))).splitlines()
    if not lines:
        return f"{content.get('ename')}: {content.get('evalue')}"
    return "\n".join(lines[-_LINES:])

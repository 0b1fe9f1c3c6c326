"""The outputs of a request, read from Jupyter's messages.

Comes in: a message's type and content. Goes out: an `Output`, whatever the content holds: what a kernel sends is
data, and none of it is an error here.
"""

from __future__ import annotations

from typing import Any, Literal

from codeact_kernel.blocks import ClearOutput, DisplayOutput, ErrorOutput, Output, ResultOutput, StreamOutput
from codeact_kernel.inkernel import wire


def read_output(msg_type: str, content: dict[str, Any]) -> Output | None:
    """Read an output from a message.

    Args:
        msg_type: The message's type.
        content: Its content.

    Returns:
        The output, or None for a message that is none.
    """
    match msg_type:
        case "stream":
            name: Literal["stdout", "stderr"] = "stderr" if content.get("name") == "stderr" else "stdout"
            return StreamOutput(name, str(content.get("text", "")))
        case "display_data" | "update_display_data":
            display_id = _dict(content.get("transient")).get("display_id")
            update = msg_type == "update_display_data"
            data, metadata = _dict(content.get("data")), _dict(content.get("metadata"))
            return DisplayOutput(data, metadata, None if display_id is None else str(display_id), update)
        case "execute_result":
            count = content.get("execution_count")
            shown_count = count if isinstance(count, int) else None
            return ResultOutput(_dict(content.get("data")), _dict(content.get("metadata")), shown_count)
        case "error":
            lines = content.get("traceback")
            traceback = tuple(map(str, lines)) if isinstance(lines, list) else ()
            return ErrorOutput(str(content.get("ename")), str(content.get("evalue")), traceback)
        case "clear_output":
            return ClearOutput(bool(content.get("wait")))
        case wire.LOST:
            return _lost(content)
    return None


def never_came(count: int) -> StreamOutput:
    """The output that stands where others are missing.

    Args:
        count: How many.
    """
    outputs = "1 output" if count == 1 else f"{count:,} outputs"
    return StreamOutput("stderr", f"\n[{outputs} of the kernel never came and cannot be had again]\n")


def meta_of(message: dict[str, Any]) -> dict[str, Any]:
    """Our fields of a message; empty for a kernel that is not ours.

    Args:
        message: The message.
    """
    return _dict(_dict(message.get("metadata")).get(wire.KEY))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _lost(content: dict[str, Any]) -> StreamOutput:
    counts = [content.get(key) for key in ("lines", "characters", "outputs")]
    lines, characters, outputs = (f"{count:,}" if isinstance(count, int) else "some" for count in counts)
    why = "nobody read them in time, and the kernel's room for them was full"
    return StreamOutput(
        "stderr", f"\n[{lines} lines, {characters} characters ({outputs} outputs) are lost here: {why}]\n"
    )

"""What a scripted endpoint says, and what it was asked.

Comes in: nothing. Goes out: `EndpointReply`, which may go wrong in many ways, and `Recorded`, a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from codeact_kernel.messages import ToolCall, Usage

Breakage = Literal["drop", "reset", "close", "malformed", "hang", "ping", "error"]
"""How an answer goes wrong: "drop" closes the connection with no answer at all. The others come after `at`
characters of text: the connection is reset, closed in the middle of the body, goes on with bytes that are no
JSON, goes silent, sends nothing but signs of life, or brings an error event."""


@dataclass(frozen=True, slots=True)
class EndpointReply:
    """One reply, and how it goes wrong."""

    text: str = ""
    thought: str = ""
    """Reasoning, streamed before the text as `reasoning_content`."""
    calls: tuple[ToolCall, ...] = ()
    finish: str | None = ""
    """The finish reason; None sends none and no `[DONE]`; "" chooses "stop" or "tool_calls"."""
    usage: Usage | None = field(default_factory=Usage)
    """What is reported; None reports none; an empty one is counted as a token for four characters."""
    piece: int = 12
    """Characters a chunk."""
    delay: float = 0.0
    """Seconds before each chunk."""
    wait: float = 0.0
    """Seconds before the answer begins."""
    status: int = 200
    """An HTTP status above 200 fails the request, with `error` as the body's error."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers ("Retry-After")."""
    error: Mapping[str, Any] = field(default_factory=dict)
    breaks: Breakage | None = None
    at: int = 0
    """Characters of text before it breaks."""


def failing(
    status: int, message: str, *, code: str | None = None, retry_after: str | int | None = None
) -> EndpointReply:
    """A reply that is an HTTP error.

    Args:
        status: The HTTP status.
        message: The error's message.
        code: The error's code.
        retry_after: What the Retry-After header says.
    """
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return EndpointReply(status=status, headers=headers, error={"message": message, "code": code})


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: Mapping[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat messages of the request."""
        return list(self.body.get("messages", ()))

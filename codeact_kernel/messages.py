"""What travels between us and a model endpoint.

Comes in: nothing. Goes out: the chat messages of a request, the pieces of a streamed reply, and the usage.
The shapes are those of the Chat Completions API, without its library.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model made through the endpoint's own tool calling."""

    id: str
    name: str
    arguments: str
    """The arguments as the JSON text that the model wrote."""


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """What an image may be on its way to a model, a larger one is scaled down before; and how the model counts.

    The defaults are the size that Anthropic's page on vision recommends, and a little less than the 5 MiB that its API
    takes; others take more. What an endpoint scales by itself it tells places of in pixels that nobody else knows.
    """

    side: int = 1568
    """Pixels of the long side."""
    pixels: int = 1_150_000
    """Pixels in all."""
    bytes: int = 5_000_000
    """Bytes, as base64."""
    grid: int | None = None
    """Into how many steps the model divides each side when it tells places, 1000 for Gemini; None for pixels."""


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image in a message."""

    label: str
    """What stands before it, so that the text can speak of it."""
    media_type: str
    """"image/png" or "image/jpeg"."""
    data: bytes = field(repr=False)
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls that an assistant message made."""
    tool_call_id: str | None = None
    """Which call a tool message answers."""
    images: tuple[ImagePart, ...] = ()
    """Images that a user message shows, before its text."""


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as it is offered to an endpoint that does its own tool calling."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The JSON schema of the arguments."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls to a model used. Adding two adds each figure, and so does taking away."""

    input_tokens: int = 0
    """Tokens of the prompts, cached ones included."""
    cached_tokens: int = 0
    """Those of the prompt tokens that came from the endpoint's cache."""
    output_tokens: int = 0
    """Tokens of the replies, reasoning included."""
    calls: int = 0
    """Requests that were answered."""
    cost: float | None = 0.0
    """US dollars, or None as soon as one price is unknown."""
    estimated: bool = False
    """Whether any of the token figures is our estimate, because the endpoint sent none."""

    def __add__(self, other: Usage) -> Usage:
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            self.calls + other.calls,
            cost,
            self.estimated or other.estimated,
        )

    def __sub__(self, other: Usage) -> Usage:
        cost = None if self.cost is None or other.cost is None else self.cost - other.cost
        return Usage(
            self.input_tokens - other.input_tokens,
            self.cached_tokens - other.cached_tokens,
            self.output_tokens - other.output_tokens,
            self.calls - other.calls,
            cost,
            self.estimated,
        )

    @property
    def total_tokens(self) -> int:
        """Prompt and reply tokens together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call to a model."""

    messages: tuple[Message, ...]
    stop: tuple[str, ...] = ()
    """Stop sequences, sent where the endpoint takes them."""
    tools: tuple[ToolSchema, ...] = ()
    max_tokens: int | None = None
    """The longest reply that is allowed, in tokens; None leaves it to the endpoint."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further fields of the request body (temperature, seed, …)."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """The next characters of the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtPiece:
    """The next characters of the reasoning that an endpoint sends apart from the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class CallPiece:
    """The next part of a tool call. `id` and `name` come with its first piece."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class EndPiece:
    """The end of a reply; always the last piece, and always sent."""

    finish: str | None
    """"stop", "length", "tool_calls", …; None where the stream ended without saying why (it was cut)."""
    usage: Usage


Piece = TextPiece | ThoughtPiece | CallPiece | EndPiece

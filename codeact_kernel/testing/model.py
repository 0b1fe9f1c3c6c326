"""A model that says what a test wrote down.

Comes in: a list of replies, and the requests of the code under test. Goes out: `ScriptedModel`, which streams
the replies in order and keeps every request that it was asked with.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeAlias

from codeact_kernel.messages import EndPiece, ModelRequest, Piece, TextPiece, Usage

Scripted: TypeAlias = str | Sequence[Piece | str | float] | Exception
"""One reply: its text; or its pieces, where a bare text is a piece and a number is a pause in seconds; or the
exception that is raised instead of it."""

ScriptedReply: TypeAlias = Scripted | Callable[[ModelRequest], Scripted]
"""A reply, or a function that makes one from the request."""

__all__ = ["Scripted", "ScriptedModel", "ScriptedReply"]


class ScriptedModel:
    """A `Model` that streams scripted replies.

    A reply that does not end in an `EndPiece` of its own ends with finish reason "stop" and a usage estimated
    at four characters a token; a cut reply is scripted as `["half of i", EndPiece(None, Usage())]`.

    Args:
        replies: What it says, in order.
        name: What it is called.
        window: Tokens that fit in its window, or None.
        chunk: Characters in a piece of a reply that is given as text; None streams it as one piece.
    """

    def __init__(
        self,
        replies: Iterable[ScriptedReply],
        *,
        name: str = "scripted",
        window: int | None = None,
        chunk: int | None = None,
    ) -> None:
        self._replies = list(replies)
        self._name = name
        self._window = window
        self._chunk = chunk
        self.requests: list[ModelRequest] = []
        """What it was asked, in order."""
        self.closed = False

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @property
    def window(self) -> int | None:
        """Tokens that fit in its window, or None."""
        return self._window

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.requests)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Stream the next reply of the script.

        Args:
            request: Kept in `requests`, and handed to a reply that is a function.

        Raises:
            AssertionError: If the script holds no further reply.
            Exception: The one that stands in the script, before the first piece.
        """
        self.requests.append(request)
        if self.calls > len(self._replies):
            raise AssertionError(f"the script holds {len(self._replies)} replies; this is call {self.calls}")
        reply = self._replies[self.calls - 1]
        said = reply(request) if callable(reply) else reply
        if isinstance(said, Exception):
            raise said
        ended = False
        text = ""
        for piece in self._pieces(said):
            if isinstance(piece, float | int):
                await asyncio.sleep(piece)
                continue
            ended = isinstance(piece, EndPiece)
            text += piece.text if isinstance(piece, TextPiece) else ""
            yield piece
        if not ended:
            yield EndPiece("stop", _estimate(request, text))

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.closed = True

    def _pieces(self, said: str | Sequence[Piece | str | float]) -> list[Piece | float]:
        if isinstance(said, str):
            step = self._chunk or max(1, len(said))
            return [TextPiece(said[at : at + step]) for at in range(0, len(said), step)]
        return [TextPiece(piece) if isinstance(piece, str) else piece for piece in said]


def _estimate(request: ModelRequest, text: str) -> Usage:
    asked = sum(len(message.content) for message in request.messages)
    return Usage(input_tokens=-(-asked // 4), output_tokens=-(-len(text) // 4), calls=1, estimated=True)

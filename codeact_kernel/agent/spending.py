"""The one door to models: what every agent, and every tool that asks a model, asks through.

Comes in: requests. Goes out: the pieces of replies, each call held against the budget of the run before it is made and
settled after it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from codeact_kernel.context import Counter
from codeact_kernel.errors import ModelError
from codeact_kernel.messages import CallPiece, EndPiece, ModelRequest, Piece, Usage
from codeact_kernel.model import CHARACTERS_PER_TOKEN, ModelSettings, tokens_of_images
from codeact_kernel.model.catalogue import VOCABULARY_FOLDER
from codeact_kernel.model.weights import models_dir
from codeact_kernel.policy import Budget, Call
from codeact_kernel.prices import Prices, cost
from codeact_kernel.protocols import Model


class SpendingModel:
    """A `Model` whose calls are paid from a budget.

    Args:
        model: The model.
        settings: What is known of it; None for a caller's own.
        budget: Gives the budget of the run that goes on.
    """

    def __init__(self, model: Model, settings: ModelSettings | None, budget: Callable[[], Budget]) -> None:
        self.inner = model
        self._budget = budget
        self._longest = settings.max_tokens if settings else None
        self._prices: Prices | None = settings.prices if settings else getattr(model, "prices", None)
        self._counter = counter_of(model, settings)

    @property
    def name(self) -> str:
        """As in `Model`."""
        return self.inner.name

    @property
    def window(self) -> int | None:
        """As in `Model`."""
        return self.inner.window

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """As in `Model`.

        Raises:
            LimitReached: If the budget does not pay for it.
            ConfigError: If it would have to, and the price is not known.
        """
        budget = self._budget()
        prompt = functools.cache(lambda: self._count(request))
        longest = request.max_tokens or self._longest
        held = await budget.reserve(Call(self.name, prompt, longest, self.window, self._prices))
        came = 0
        try:
            async with closing(self.inner.stream(replace(request, max_tokens=held.max_tokens))) as pieces:
                async for piece in pieces:
                    if isinstance(piece, EndPiece):
                        piece = replace(piece, usage=self._priced(piece.usage))
                        self._learn(request, piece.usage)
                        budget.settle(held, piece.usage)
                    else:
                        came += len(piece.arguments if isinstance(piece, CallPiece) else piece.text)
                    yield piece
        except ModelError:
            budget.settle(held, Usage())  # it is raised before the first piece only
            raise
        finally:
            if not held.settled:
                budget.settle(held, self._broken(prompt(), came))

    async def aclose(self) -> None:
        """As in `Model`."""
        await self.inner.aclose()

    def _count(self, request: ModelRequest) -> int:
        messages = self._counter.count_messages(request.messages)
        return messages + self._count_tools(request) + tokens_of_images(request)

    def _count_tools(self, request: ModelRequest) -> int:
        return sum(
            self._counter.count(tool.description + json.dumps(tool.parameters)) for tool in request.tools
        )

    def _learn(self, request: ModelRequest, usage: Usage) -> None:
        if not usage.estimated and not tokens_of_images(request):
            self._counter.calibrate(request.messages, usage.input_tokens - self._count_tools(request))

    def _priced(self, usage: Usage) -> Usage:
        """What a call took, with its cost where the prices are known; a caller's own model need not work that out."""
        return replace(usage, cost=usage.cost or cost(usage, self._prices)) if self._prices else usage

    def _broken(self, prompt: int, came: int) -> Usage:
        """What a reply took that was broken off from our side: nobody tells, so it is the prompt and what came."""
        written = Usage(prompt, 0, -(-came // CHARACTERS_PER_TOKEN), calls=1, estimated=True)
        return replace(written, cost=cost(written, self._prices))


@asynccontextmanager
async def closing(pieces: AsyncIterator[Piece]) -> AsyncIterator[AsyncIterator[Piece]]:
    """Close a stream in the end, also one that is not read to its own.

    Args:
        pieces: What `Model.stream` gave; a caller's own may have nothing to close.
    """
    try:
        yield pieces
    finally:
        if (close := getattr(pieces, "aclose", None)) is not None:
            await close()


def counter_of(model: Model, settings: ModelSettings | None) -> Counter:
    """What counts the tokens of a model.

    Args:
        model: The model.
        settings: What is known of it; None for a caller's own.
    """
    return Counter(model.name, settings.encoding if settings else None, models_dir() / VOCABULARY_FOLDER)

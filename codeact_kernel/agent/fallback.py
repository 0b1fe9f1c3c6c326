"""Another model that answers while the first cannot.

Comes in: requests. Goes out: replies of the first model, or of the second where the first is unreachable, limited or
refuses. After a while the first is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from codeact_kernel.agent.spending import closing
from codeact_kernel.blocks import format_duration
from codeact_kernel.errors import ContextOverflow, ModelError, RateLimited
from codeact_kernel.events import Event, Notice
from codeact_kernel.messages import ModelRequest, Piece
from codeact_kernel.protocols import Model

AGAIN = 300.0
"""Seconds for which the second model answers before the first is asked again; ours: a second prompt that no cache holds
costs more than a few replies of another model."""
PATIENCE = 30.0
"""Seconds for which a model is tried again that another one stands in for."""


class FallbackModel:
    """A `Model` with another one that stands in for it. All who share it go over, and back, together.

    Args:
        first: Who is asked as long as it answers.
        second: Who is asked else.
        emit: Told when the other one answers from now on.
    """

    def __init__(self, first: Model, second: Model, emit: Callable[[Event], None]) -> None:
        self.first = first
        self.second = second
        self._emit = emit
        self._until: float | None = None
        """When the first is asked again; None while it answers."""

    @property
    def name(self) -> str:
        """Of the one that answers."""
        return (self.first if self._until is None else self.second).name

    @property
    def window(self) -> int | None:
        """Of the one that answers."""
        return (self.first if self._until is None else self.second).window

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """As in `Model`.

        Raises:
            ModelError: Of the second, when neither answers; before the first piece only.
        """
        if self._until is None or asyncio.get_running_loop().time() >= self._until:
            begun = False
            try:
                async with closing(self.first.stream(request)) as pieces:
                    async for piece in pieces:
                        if not begun:
                            begun = True
                            self._back()
                        yield piece
                return
            except ContextOverflow:
                raise
            except ModelError as error:
                if begun:
                    raise
                self._over(error)
        async with closing(self.second.stream(request)) as pieces:
            async for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        """As in `Model`."""
        # Both may be shared; whoever opened them closes them.

    def _over(self, error: ModelError) -> None:
        asked = error.retry_after if isinstance(error, RateLimited) else None
        wait = max(AGAIN, asked or 0.0)
        is_new, self._until = self._until is None, asyncio.get_running_loop().time() + wait
        if is_new:
            text = f"{error.message}; {self.second.name} answers instead, and the first is asked again in"
            self._emit(Notice("fallback", f"{text} {format_duration(wait)}"))

    def _back(self) -> None:
        if self._until is not None:
            self._until = None
            self._emit(Notice("fallback", f"{self.first.name} answers again"))

"""Makes room in a context that is full: the last resort, where the model has not compacted by itself.

Comes in: a context that is full, or a prompt that did not fit. Goes out: a `Knowledge` entry. The model is asked to
write down what it needs, in a call of which nothing runs; where that is not possible, the runtime makes an excerpt.
"""

from __future__ import annotations

from codeact_kernel.agent.asker import Asker
from codeact_kernel.agent.context import Context
from codeact_kernel.context import written_down
from codeact_kernel.errors import ContextOverflow, LimitReached
from codeact_kernel.events import Entry, Knowledge

TRIES = 2
"""How often the model is asked. One that twice writes neither prose nor knowledge will not at the third time."""
COMPACTIONS = 3
"""Compactions in a row by the runtime, after which the run is stopped: what they leave is too large each time, so a
fourth would only cost."""


class Compactor:
    """Makes room.

    Args:
        asker: Asks the model.
        context: What is full.
    """

    def __init__(self, asker: Asker, context: Context) -> None:
        self._asker = asker
        self._context = context
        self._in_a_row = 0

    def there_is_room(self) -> None:
        """Take note that there was room for what came."""
        self._in_a_row = 0

    async def make_room(self, turn: int) -> list[Entry]:
        """Compact, because what comes next would leave no room for a reply.

        Args:
            turn: The turn that goes on.

        Returns:
            What the context begins anew with.

        Raises:
            LimitReached: If it was done so often in a row that it does not help.
            ModelError: If the model cannot be asked; nothing is changed then.
        """
        attempt = self._attempt()
        return [await self._summary(turn) or await self._context.force(attempt=attempt)]

    async def make_room_for_last(self, turn: int, handle: str | None) -> list[Entry]:
        """Compact, because the endpoint says that the context does not fit; its last entry is read after that.

        Args:
            turn: The turn that goes on.
            handle: Code that gives the whole of that entry.

        Returns:
            As `make_room`, and that entry, cut where it is large.

        Raises:
            LimitReached: As in `make_room`.
            ModelError: As in `make_room`.
        """
        attempt, last = self._attempt(), self._context.last
        knowledge = None if attempt else await self._summary(turn, left_out=1)
        knowledge = knowledge or await self._context.force(left_out=1, attempt=attempt)
        return [knowledge, self._context.fitted(last, handle, attempt)]

    def _attempt(self) -> int:
        if self._in_a_row == COMPACTIONS:
            raise LimitReached(
                f"the context does not fit the model's window even after {COMPACTIONS} compactions in a row",
                limit="context",
                allowed=self._context.window or 0,
            )
        self._in_a_row += 1
        return self._in_a_row - 1

    async def _summary(self, turn: int, left_out: int = 0) -> Knowledge | None:
        for _ in range(TRIES):
            messages = self._context.summary_messages(left_out)
            if messages is None:
                break
            try:
                reply = await self._asker.ask(messages, turn, runs=False)
            except ContextOverflow:
                self._context.learn_overflow(messages)
                break
            if text := written_down(reply):
                return await self._context.known(text)
        return None

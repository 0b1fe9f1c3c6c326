"""A model that plays several agents at once, each from a script of its own.

Comes in: scripts by a word of the task, and the requests of the code under test. Goes out: `Cast`, a `Model` that
finds the script by the task that a conversation began with, and the place in it by the replies given so far.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from codeact_kernel.messages import ModelRequest, Piece
from codeact_kernel.testing.model import Scripted, ScriptedModel, ScriptedReply


class Cast:
    """A `Model` with a script for each agent.

    It remembers nothing but what it was asked: any number of agents with the same task play the same script.

    Args:
        scripts: Replies, in order, by some words that only that task holds; or a function that makes each reply from
            the request, for a conversation whose order is not known: of two sub-agents either may end first.
        name: What it is called.
    """

    def __init__(
        self,
        scripts: Mapping[str, Sequence[ScriptedReply] | Callable[[ModelRequest], Scripted]],
        *,
        name: str = "cast",
    ) -> None:
        self._scripts = scripts
        self._name = name
        self.requests: list[ModelRequest] = []
        """What it was asked, in order."""
        self.closed = False

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @property
    def window(self) -> int | None:
        """None: all of it fits."""
        return None

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Stream the next reply of the script of this conversation.

        Args:
            request: Kept in `requests`, and handed to a reply that is a function.

        Raises:
            AssertionError: If there is no script for the task, or no further reply in it.
            Exception: The one that stands in the script, before the first piece.
        """
        self.requests.append(request)
        task = next(message.content for message in request.messages if message.role == "user")
        said = sum(message.role == "assistant" for message in request.messages)
        found = [script for words, script in self._scripts.items() if words in task]
        if len(found) != 1:
            raise AssertionError(f"{len(found)} scripts for the task {task!r}")
        (script,) = found
        if not callable(script) and said >= len(script):
            raise AssertionError(
                f"the script for {task!r} holds {len(script)} replies; this is call {said + 1}"
            )
        reply = script if callable(script) else script[said]
        async for piece in ScriptedModel([reply]).stream(request):
            yield piece

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.closed = True

"""What the model gets to see at each call, and how large that is.

Comes in: the transcript; the model's wish to compact. Goes out: messages, their size, reminders, compactions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from codeact_kernel.blocks import AgentBlock
from codeact_kernel.context import (
    Alive,
    AliveAgent,
    AliveBlock,
    AliveVariable,
    Counter,
    Reminders,
    compact,
    compact_by_force,
    inventory,
    is_full,
    threshold_of,
    visible,
)
from codeact_kernel.events import Knowledge, Observation, Reply, Report
from codeact_kernel.messages import Message
from codeact_kernel.protocols import Codec
from codeact_kernel.supervisor import LiveBlock, Supervisor
from codeact_kernel.transcript import Transcript

FORCED_SHARE = 0.25
"""Of the window, or of the threshold where that is not known: the size of a compaction by the runtime."""


class Context:
    """An agent's context.

    Args:
        transcript: Whose entries it is made of.
        codec: Writes messages.
        system: The system prompt, or None.
        counter: Counts tokens.
        window: Gives the tokens that the model's window holds, or None while that is not known.
        threshold: Tokens past which the model is reminded to compact.
        supervisor: Knows what runs.
        names: Gives the names that the namespace holds.
        wall: The time in seconds since the epoch.
    """

    def __init__(
        self,
        transcript: Transcript,
        codec: Codec,
        system: str | None,
        counter: Counter,
        *,
        window: Callable[[], int | None],
        threshold: int,
        supervisor: Supervisor,
        names: Callable[[], tuple[str, ...]],
        wall: Callable[[], float],
    ) -> None:
        self.system = system
        self._transcript = transcript
        self._codec = codec
        self._counter = counter
        self._window = window
        self._wanted_threshold = threshold
        self._supervisor = supervisor
        self._names = names
        self._wall = wall
        self._reminders = Reminders()
        self._wish: Knowledge | None = None

    def messages(self) -> list[Message]:
        """The messages of the next call."""
        return self._codec.messages(self.system, visible(self._transcript.entries))

    def count(self, messages: list[Message]) -> int:
        """The size of messages, in tokens."""
        return self._counter.count_messages(messages)

    def count_text(self, text: str) -> int:
        """The size of a text, in tokens."""
        return self._counter.count(text)

    def learn(self, messages: list[Message], reply: Reply) -> None:
        """Learn from what the endpoint says a prompt was; joined replies report several prompts, and teach nothing.

        Args:
            messages: The prompt.
            reply: What came of it.
        """
        if reply.usage.calls == 1 and not reply.usage.estimated:
            self._counter.calibrate(messages, reply.usage.input_tokens)

    def reminder(self, coming: Observation) -> Report | None:
        """The reminder to compact that is due, if one is.

        Args:
            coming: What the model is about to read besides what it has read.
        """
        entries = [*visible(self._transcript.entries), coming]
        size = self.count(self._codec.messages(self.system, entries))
        return self._reminders.due(size, self._window(), self._threshold)

    @property
    def _threshold(self) -> int:
        return min(self._wanted_threshold, threshold_of(self._window()))

    def compact(self, text: str) -> None:
        """Take the model's wish to replace the context by a text; it is carried out with the next observation.

        Args:
            text: What the model wants to keep.

        Raises:
            ToolError: If the text is empty.
        """
        self._wish = compact(text, Alive())

    def take_knowledge(self) -> Knowledge | None:
        """The compaction that the model wished for, if it did, with what is alive now."""
        wish, self._wish = self._wish, None
        return None if wish is None else replace(wish, inventory=inventory(self._alive()))

    def must_compact(self, messages: list[Message]) -> bool:
        """Whether these messages leave no room for a reply."""
        return is_full(self.count(messages), self._window())

    def force(self) -> Knowledge:
        """Compact without the model."""
        budget = int((self._window() or 4 * self._threshold) * FORCED_SHARE)
        return compact_by_force(self._transcript.entries, self._alive(), budget, self.count_text)

    def _alive(self) -> Alive:
        live, now = self._supervisor.live, self._wall()
        return Alive(
            blocks=tuple(_block(b, now) for b in live if not isinstance(b.block, AgentBlock)),
            agents=tuple(
                AliveAgent(b.id, b.block.task, now - b.started if b.started else None)
                for b in live
                if isinstance(b.block, AgentBlock)
            ),
            variables=tuple(AliveVariable(name, "") for name in self._names()),
            outputs=tuple(self._supervisor.results),
        )


def _block(live: LiveBlock, now: float) -> AliveBlock:
    code = "" if isinstance(live.block, AgentBlock) else live.block.code
    return AliveBlock(
        live.id,
        code,
        now - live.started if live.started else None,
        live.deadline - now if live.deadline else None,
    )

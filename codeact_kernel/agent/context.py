"""What the model gets to see at each call, and how large that is.

Comes in: the transcript; the model's wish to compact. Goes out: messages, their size, reminders, compactions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from codeact_kernel.context import (
    Alive,
    Counter,
    Reminders,
    compact,
    compact_by_force,
    inventory,
    is_full,
    reserve_of,
    summary_request,
    threshold_of,
    visible,
)
from codeact_kernel.dialogue import shorten
from codeact_kernel.events import Entry, Knowledge, Observation, Reply, Report, Task
from codeact_kernel.messages import Message
from codeact_kernel.protocols import Codec
from codeact_kernel.transcript import Transcript

FORCED_SHARE = 0.25
"""Of the window, or of the threshold where that is not known: the size of a compaction by the runtime."""
TEXT_SHARE = 3
"""A text that the model did not ask for, a task or a note, or its own knowledge, gets a third of the window at most."""
INVENTORY_SHARE = 8
"""What is alive gets an eighth of it: in the smallest windows it is cut."""
OBSERVATION_SHARE = 4
"""The results of one observation get a quarter of the window together."""
FEWEST = 64
"""Tokens that each of them gets however many there are."""
LEARNT = 0.9
"""Of the size of a prompt that did not fit: what the window is taken to be where the endpoint does not tell it."""


class Context:
    """An agent's context.

    Args:
        transcript: Whose entries it is made of.
        codec: Writes messages.
        system: The system prompt, or None.
        counter: Counts tokens.
        window: Gives the tokens that the model's window holds, or None while that is not known.
        threshold: Tokens past which the model is reminded to compact.
        survey: Tells what is alive.
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
        survey: Callable[[], Awaitable[Alive]],
    ) -> None:
        self.system = system
        self._transcript = transcript
        self._codec = codec
        self._counter = counter
        self._told_window = window
        self._learnt: int | None = None
        self._wanted_threshold = threshold
        self._survey = survey
        self._reminders = Reminders()
        self._wish: Knowledge | None = None

    @property
    def window(self) -> int | None:
        """The tokens that the model's window holds; None while that is not known."""
        known = [window for window in (self._told_window(), self._learnt) if window is not None]
        return min(known, default=None)

    def messages(self, coming: Sequence[Entry] = ()) -> list[Message]:
        """The messages of the next call.

        Args:
            coming: What would stand at their end.
        """
        return self._written([*visible(self._transcript.entries), *coming])

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

    @property
    def last(self) -> Entry:
        """What the model read last."""
        return self._transcript.entries[-1]

    def learn_overflow(self, messages: list[Message]) -> None:
        """Learn from a prompt that did not fit, where the endpoint did not say how much does.

        Args:
            messages: The prompt.
        """
        size = self.count(messages)
        if self.window is None or self.window > size:
            self._learnt = int(size * LEARNT)

    def size_with(self, coming: Entry) -> int:
        """The size that the context will have, in tokens.

        Args:
            coming: What the model is about to read besides what it has read.
        """
        return self.count(self.messages([coming]))

    def reminder(self, size: int) -> Report | None:
        """The reminder to compact that is due, if one is.

        Args:
            size: The size that the context will have.
        """
        return self._reminders.due(size, self.window, self._threshold)

    @property
    def _threshold(self) -> int:
        return min(self._wanted_threshold, threshold_of(self.window))

    def share(self, wanted: int, parts: int) -> int:
        """The tokens that each of several results gets, so that they fit together.

        Args:
            wanted: What one gets where there is room.
            parts: How many there are.
        """
        window = self.window
        if window is None:
            return wanted
        return min(wanted, max(FEWEST, window // OBSERVATION_SHARE // max(1, parts)))

    def fit(self, text: str, handle: str | None, attempt: int = 0) -> str:
        """Cut the middle out of a text that is too large for the window.

        Args:
            text: The text.
            handle: Code that gives all of it.
            attempt: How often this has not been enough.
        """
        if (window := self.window) is None:
            return text
        return shorten(text, (window // TEXT_SHARE) >> attempt, self.count_text, handle)

    def fitted(self, entry: Entry, handle: str | None, attempt: int) -> Entry:
        """What of an entry is read again, after the context did not fit with it.

        Args:
            entry: The entry.
            handle: Code that gives all of it.
            attempt: How often this has not been enough.
        """
        match entry:
            case Task():
                return Task(self.fit(entry.text, handle, attempt))
            case Observation():
                most = self.share(self.window or self._threshold, len(entry.reports)) >> attempt
                bodies = [shorten(report.body, most, self.count_text, handle) for report in entry.reports]
                return Observation(
                    tuple(
                        replace(report, body=body) for report, body in zip(entry.reports, bodies, strict=True)
                    )
                )
            case _:
                return entry

    def compact(self, text: str) -> None:
        """Take the model's wish to replace the context by a text; it is carried out with the next observation.

        Args:
            text: What the model wants to keep.

        Raises:
            ToolError: If the text is empty.
        """
        self._wish = compact(text)

    async def take_knowledge(self) -> Knowledge | None:
        """The compaction that the model wished for, if it did, with what is alive now."""
        wish, self._wish = self._wish, None
        return None if wish is None else await self.known(wish.text)

    async def known(self, text: str) -> Knowledge:
        """A compaction, with what is alive now.

        Args:
            text: What the model has written down.
        """
        return compact(self.fit(text, 'self.history.search("…")'), await self._inventory())

    def overflows(self, size: int) -> bool:
        """Whether there will be no room for a reply, and a compaction could make some.

        Args:
            size: The size that the context will have.
        """
        grown = any(isinstance(entry, Reply) for entry in visible(self._transcript.entries))
        return grown and is_full(size, self.window)

    def summary_messages(self, left_out: int = 0) -> list[Message] | None:
        """The messages by which the model is asked to write down what it needs.

        Args:
            left_out: Entries at the end that it does not see, because it read them last and they did not fit.

        Returns:
            The messages; None where they would not fit, or where nothing was said that could be written down.
        """
        entries = visible(self._transcript.entries)
        seen = entries[: len(entries) - left_out]
        window = self.window
        tokens = self._threshold // 4 if window is None else reserve_of(window)
        messages = self._written([*seen, summary_request(tokens)])
        has_turns = any(isinstance(entry, Reply) for entry in seen)
        # What was seen before the last entry came has fitted already.
        fits = left_out or window is None or self.count(messages) + tokens // 4 <= window
        return messages if has_turns and fits else None

    async def force(self, left_out: int = 0, attempt: int = 0) -> Knowledge:
        """Compact without the model.

        Args:
            left_out: Entries at the end that it reads later.
            attempt: How often this has not been enough; each time less is kept.
        """
        budget = int((self.window or 4 * self._threshold) * FORCED_SHARE) >> attempt
        entries, alive = self._transcript.entries, await self._inventory()
        return compact_by_force(entries[: len(entries) - left_out], alive, budget, self.count_text)

    async def _inventory(self) -> str:
        text = inventory(await self._survey())
        if (window := self.window) is None:
            return text
        return shorten(text, window // INVENTORY_SHARE, self.count_text, "dir()")

    def _written(self, entries: Sequence[Entry]) -> list[Message]:
        return self._codec.messages(self.system, entries)

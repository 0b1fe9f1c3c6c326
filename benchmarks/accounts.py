"""What model calls cost, counted in calls and tokens."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from codeact_kernel.context import Counter
from codeact_kernel.messages import Message
from codeact_kernel.model.catalogue import VOCABULARY_FOLDER
from codeact_kernel.model.weights import models_dir

SYSTEM = "You solve tasks by calling tools. When the task is done, reply in plain text: that is your answer."


def open_counter() -> Counter:
    """Counts with o200k_base where its vocabulary is there, and says so where it is not."""
    counter = Counter(encoding="o200k_base", vocabularies=models_dir() / VOCABULARY_FOLDER)
    if not counter.exact:
        print("no vocabulary here (codeact model fetch vocabularies): tokens are estimates, four bytes each")
    return counter


@dataclass
class Cost:
    """What a way costs."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
        )


class Conversation:
    """A context that grows at its end, and is sent with each call of the model.

    Args:
        counter: Counts.
        tokens: What is sent with each call besides messages.
    """

    def __init__(self, counter: Counter, tokens: int) -> None:
        self._counter = counter
        self._empty = counter.count_messages([])
        self._size = self._empty + tokens
        self.cost = Cost()

    def _of(self, message: Message) -> int:
        return self._counter.count_messages([message]) - self._empty

    def add(self, *messages: Message) -> None:
        """Put something into the context."""
        self._size += sum(map(self._of, messages))

    def say(self, reply: Message) -> None:
        """One call of the model."""
        said = self._counter.count(reply.content)
        said += sum(self._counter.count(call.name + call.arguments) for call in reply.tool_calls)
        self.cost += Cost(1, self._size, said)
        self.add(reply)


def schemas(tools: list[Callable[..., Any]]) -> str:
    """How tools are offered to an endpoint."""
    return json.dumps(
        [
            {
                "type": "function",
                "function": {
                    "name": tool.__name__,
                    "description": inspect.getdoc(tool),
                    "parameters": TypeAdapter(tool).json_schema(),
                },
            }
            for tool in tools
        ]
    )

"""What the codecs share that carry blocks in the text of a reply, and the codec for tags.

Comes in: entries of the context. Goes out: messages for an endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence

from codeact_kernel.blocks import CodeBlock
from codeact_kernel.controls import sendable
from codeact_kernel.dialogue.format import format_parts
from codeact_kernel.dialogue.frames import Framer
from codeact_kernel.dialogue.prompt import example_turns
from codeact_kernel.dialogue.tags import TagReader
from codeact_kernel.events import Entry, Knowledge, Observation, Reply, Report, Task
from codeact_kernel.messages import Message, ToolSchema
from codeact_kernel.protocols import ReplyReader

STOP = ("\n<run_code_result", "\n<agent_result", "\n<running ")
"""What a model invents most. Each begins with a line end, so that a reply is cut between lines; words that
are likely in honest code (`<note>` in an XML file) are left to the reader."""


class TagCodec:
    """Blocks in tags, in the text of the reply.

    Args:
        secret: The key of the boundaries; see `Framer`.
        examples: Whether the context begins with example turns. Small models write blocks reliably only then,
            and only if they are turns: told in the system prompt, they are continued instead of followed.
    """

    name = "tags"
    stop: tuple[str, ...] = STOP
    tools: tuple[ToolSchema, ...] = ()

    def __init__(self, secret: bytes | None = None, *, examples: bool = False) -> None:
        self.framer = Framer(secret)
        self._examples = self.example_entries() if examples else []

    def reader(self, compiles: Callable[[str], bool], in_use: Collection[str] = ()) -> ReplyReader:
        """Begin to read a reply; see `Codec.reader`."""
        return TagReader(compiles, in_use)

    def messages(self, system: str | None, entries: Sequence[Entry]) -> list[Message]:
        """Write the context; see `Codec.messages`. A reply of which nothing is left gives no message."""
        written = [Message("system", sendable(system))] if system else []
        for entry in (*self._examples, *entries):
            written += self.entry_messages(entry)
        return written

    def example_entries(self) -> list[Entry]:
        """The example turns, as entries of the context."""
        entries: list[Entry] = []
        for number, example in enumerate(example_turns()):
            result = Report("run_code_result", example.output, "b1", (("duration", "0.01s"),))
            entries += [
                Task(example.task),
                self.example_reply(number, example.code),
                Observation((result,)),
                Reply(0, example.answer),
            ]
        return entries

    def example_reply(self, number: int, code: str) -> Reply:
        """A reply that is one block."""
        del number
        return Reply(0, format_parts([CodeBlock(code)]))

    def entry_messages(self, entry: Entry) -> list[Message]:
        """Write one entry."""
        match entry:
            case Task():
                return [Message("user", sendable(entry.text))]
            case Reply():
                text = format_parts(entry.parts) if entry.calls else entry.text
                return [Message("assistant", sendable(text))] if text else []
            case Observation():
                return [Message("user", self.framer.observation(entry))]
            case Knowledge():
                return [Message("user", self.framer.knowledge(entry))]

    def continuation(self, text: str) -> list[Message]:
        """Ask for the rest of a reply; see `Codec.continuation`."""
        if not text.strip():
            return []
        last = json.dumps(sendable(text)[-60:], ensure_ascii=False)
        ask = (
            f"Your reply was cut off behind {last}. Go on with the very next character: repeat nothing, "
            "open no new tag or fence, explain nothing."
        )
        return [Message("assistant", sendable(text)), Message("user", ask)]

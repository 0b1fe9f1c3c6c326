"""The third codec: the same calls as JSON in the text of the reply.

Comes in: a reply's characters, from a server that does not read its model's calls. Goes out: what the calls
mean. A call is an object at the start of a line with the keys "name" and "arguments" (or "parameters"),
bare, in a fence, in a list, or under the key "function". Any other object is prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any, Literal

from codeact_kernel.blocks import Fault
from codeact_kernel.dialogue.calls import ObjectEnd, read_call
from codeact_kernel.dialogue.codec import TagCodec
from codeact_kernel.dialogue.reader import Items, TextReader
from codeact_kernel.dialogue.tools import call_desk
from codeact_kernel.dialogue.vocabulary import FROM_MODEL
from codeact_kernel.events import Reply
from codeact_kernel.protocols import ReplyReader

_KEYS = ("name", "arguments", "parameters", "function", "type", "id")
_LEAD = "[, "
"""What may stand before an object that is one of a list."""
_FIRST_KEY = re.compile(rf'[{re.escape(_LEAD)}]*\{{\s*"(?:{"|".join(_KEYS)})"')
_NAMED = re.compile(rf'"(?:{"|".join(FROM_MODEL)})"')
_LONGEST_KEY = 40
_FORM = 'Write it whole, as in {"name": "run_code", "arguments": {"code": "print(1)"}}.'


class JsonReader(TextReader):
    """Reads one reply that makes calls in its text.

    Args:
        in_use: Ids and names that are alive.
    """

    opener = r"(?:[\[,] ?)?\{"
    opening_words = ("[{", "[ {", ",{", ", {")

    def __init__(self, in_use: Collection[str] = ()) -> None:
        super().__init__(call_desk(in_use))
        self._parts: list[str] = []
        self._brace = ObjectEnd()

    def _open(self, tag: re.Match[str]) -> int:
        self._parts.clear()
        self._brace = ObjectEnd()
        self._enter(self._first_key, '"')
        return tag.start("tag")

    def _first_key(self, text: str, at: int, out: Items) -> int:
        """Wait for the object's first key; an object with which no call begins is prose."""
        del out
        key = text.find('"', at)
        end = text.find('"', key + 1) if key >= 0 else -1
        if end < 0 and len(text) - at < _LONGEST_KEY:
            return at
        if _FIRST_KEY.match(text, at):
            self._enter(self._object, "}")
        else:
            self._at_line_start = False
            self._enter(self._prose)
        return at

    def _object(self, text: str, at: int, out: Items) -> int:
        end = self._brace.feed(text, at)
        self._parts.append(text[at:end])
        if end is None:
            return len(text)
        self._at_line_start = self._read("".join(self._parts), out)
        self._enter(self._prose)
        return end

    def _read(self, raw: str, out: Items) -> bool:
        """Read an object that is complete; returns whether it was a call."""
        item: Any = _NAMED.search(raw) and Fault(
            "call", f"Nothing ran: the JSON of your call cannot be read. {_FORM}"
        )
        try:
            value = json.loads(raw.lstrip(_LEAD), strict=False)
        except (ValueError, RecursionError):
            pass
        else:
            call = value["function"] if isinstance(value.get("function"), dict) else value
            name, arguments = call.get("name"), call.get("arguments", call.get("parameters"))
            called = isinstance(name, str) and (arguments is not None or name in FROM_MODEL)
            item = read_call(name, {} if arguments is None else arguments, self._desk) if called else None
        if item is None:
            self._say(raw, out)
            return False
        self._acted = True
        out.append(item)
        return True

    def _end(self, reason: str | None, out: Items) -> None:
        if not self._tell_half("call", "is not complete: its last brace is missing", out):
            super()._end(reason, out)

    def _abandon(self, out: Items) -> None:
        if not self._tell_half("cut", "was cut off", out):
            super()._abandon(out)

    def _tell_half(self, kind: Literal["call", "cut"], what: str, out: Items) -> bool:
        """Tell of a call whose end never came; returns False where there is none."""
        half = "".join(self._parts) if self._step == self._object else ""
        if not _NAMED.search(half):
            self._say(half, out)
            return False
        self._over = True
        out.append(Fault(kind, f"Your call {what}, and nothing of it ran. {_FORM}"))
        return True


class JsonCodec(TagCodec):
    """Blocks as calls in JSON, in the text of the reply.

    Args:
        secret: The key of the boundaries round hostile output; see `Framer`.
        examples: Whether the context begins with example turns.
    """

    name = "json"

    def reader(self, compiles: Callable[[str], bool], in_use: Collection[str] = ()) -> ReplyReader:
        """Begin to read a reply; a call has no closing tag that could be missing, so nothing is compiled."""
        del compiles
        return JsonReader(in_use)

    def example_reply(self, number: int, code: str) -> Reply:
        """A reply that is one call."""
        del number
        return Reply(0, json.dumps({"name": "run_code", "arguments": {"code": code}}))

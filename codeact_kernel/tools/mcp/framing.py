"""Lines of a server's stdout, and the messages in them, within bounds.

Comes in: bytes. Goes out: messages; an error in the place of an answer that is too long or no JSON, so that the call
that waits for it ends; and what is no message at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mcp.types import INTERNAL_ERROR, ErrorData
from mcp.types.jsonrpc import JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

from codeact_kernel.sizes import format_size

ENDLESS = 20
"""How many times the limit a line may be long. One of which no end comes is read no further: ours, so that 20 MB and
even 200 MB of an answer end one call and not the server."""
_KEPT = 2**12
"""Bytes of both ends of a line that is too long: the number of the call stands in one of them."""

_ID = rb'"id"\s*:\s*(?:(?P<number>\d{1,18})|"(?P<text>[^"\\]{1,200})")'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_HEAD = re.compile(
    rb"\s*\{\s*(?:"
    + _VERSION
    + rb"\s*,\s*)?"
    + _ID
    + rb"\s*,\s*(?:"
    + _VERSION
    + rb'\s*,\s*)?"(?:result|error)"'
)
_TAIL = re.compile(
    rb"\}\s*,\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*\Z"
)


class Endless(Exception):
    """A line has no end within reason."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line, whole or, where it is too long, its ends."""

    head: bytes
    tail: bytes = b""
    size: int = 0
    """Bytes of a line that is too long; else 0."""


class Lines:
    """Cuts bytes into lines.

    Args:
        limit: Bytes of a line that is kept whole.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._start_line()

    def _start_line(self) -> None:
        self._kept, self._tail, self._size = bytearray(), b"", 0

    def feed(self, data: bytes) -> Iterator[Line]:
        """Take some bytes.

        Yields:
            The lines that end in them.

        Raises:
            Endless: If a line is longer than all reason.
        """
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._add(part)
            yield self._line()
            self._start_line()
        self._add(rest)
        if self._size > ENDLESS * self._limit:
            raise Endless

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._limit:
            self._kept += part
        else:
            self._tail = ((self._tail or bytes(self._kept[-_KEPT:])) + part)[-_KEPT:]
            self._kept += part[: max(0, _KEPT - len(self._kept))]
            del self._kept[_KEPT:]

    def _line(self) -> Line:
        return Line(bytes(self._kept), self._tail, self._size if self._size > self._limit else 0)


def read_message(line: Line, limit: int) -> JSONRPCMessage | None:
    """Read the message of a line.

    Args:
        line: The line.
        limit: Bytes that a message may have, for the text of an error.

    Returns:
        The message. In the place of an answer that is too long or broken, an error to the same call. None where the
        line is no message.
    """
    if line.size:
        return _refusal(
            line, f"the answer has {format_size(line.size)}; at most {format_size(limit)} are taken"
        )
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(line.head, by_name=False)
    except ValueError:
        return _refusal(Line(line.head[:_KEPT], line.head[-_KEPT:]), "the answer is broken: it is no JSON")
    return message


def _refusal(line: Line, text: str) -> JSONRPCError | None:
    found = _HEAD.match(line.head) or _TAIL.search(line.tail)
    if found is None:
        return None
    number = found["number"]
    id_ = int(number) if number is not None else found["text"].decode("utf-8", "replace")
    return JSONRPCError(jsonrpc="2.0", id=id_, error=ErrorData(code=INTERNAL_ERROR, message=text))

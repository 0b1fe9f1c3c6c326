"""Messages between the magic in a person's kernel and its host: JSON in frames, over a socket.

Comes in: dicts; bytes of a socket. Goes out: bytes; dicts. A frame is its length, four bytes, the most significant
first, and that many bytes of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

HEAD = 4
"""Bytes that tell a frame's length."""
MOST = 2**28
"""Bytes of a frame that are read. Ours: a snapshot of a run with hundreds of pictures is below it."""


def to_frame(message: dict[str, Any]) -> bytes:
    """A message as a frame.

    Args:
        message: What `json.dumps` takes.
    """
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    return len(body).to_bytes(HEAD, "big") + body


def length_of(head: bytes) -> int:
    """The length of a frame's body.

    Args:
        head: Its first `HEAD` bytes.

    Raises:
        ValueError: If no frame is that long.
    """
    length = int.from_bytes(head, "big")
    if length > MOST:
        raise ValueError(f"a message of {length:,} bytes")
    return length


def from_body(body: bytes) -> dict[str, Any]:
    """A message from a frame's body.

    Args:
        body: The body.

    Raises:
        ValueError: If it is none.
    """
    message = json.loads(body)
    if not isinstance(message, dict):
        raise ValueError("a message that is no object")
    return message


def read_frame(receive: Callable[[int], bytes]) -> dict[str, Any] | None:
    """Read a message.

    Args:
        receive: Gives up to so many bytes, and none at the end; may wait.

    Returns:
        The message; None where the other side has closed.

    Raises:
        ValueError: If it is none.
        OSError: If reading fails.
    """
    head = _exactly(HEAD, receive)
    body = None if head is None else _exactly(length_of(head), receive)
    return None if body is None else from_body(body)


def _exactly(length: int, receive: Callable[[int], bytes]) -> bytes | None:
    parts = []
    while length > 0:
        part = receive(min(length, 2**20))
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)

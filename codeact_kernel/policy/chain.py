"""One line of an audit as it stands in the file.

Comes in: what a line says. Goes out: its bytes; and back, where its signature is right.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from codeact_kernel.signing import Signer

_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode
_LINE = re.compile(rb'(\{"n":.*),"mac":"([0-9a-f]{64})"\}', re.DOTALL)
_STEP = 2**16


@dataclass(frozen=True, slots=True)
class Head:
    """What somebody knows of how far an audit went."""

    lines: int
    head: str
    """The signature of the last of them."""
    witness: str
    """Who knows it, in words: "the journal"."""


def seal(fields: dict[str, Any], signer: Signer) -> tuple[bytes, str]:
    """A line, in ASCII.

    Args:
        fields: What it says.
        signer: Signs it.

    Returns:
        The line with its line end, and its signature.
    """
    try:
        body = to_json(fields)  # in a fifth of the time
    except ValueError:  # half a character
        body = b""
    if not body or not body.isascii():
        body = _encode(fields).encode("ascii")
    body = body[:-1]
    mac = signer.sign(body)
    return b'%b,"mac":"%b"}\n' % (body, mac.encode()), mac


def sealed(raw: bytes, signer: Signer) -> dict[str, Any] | None:
    """What a line says.

    Args:
        raw: The line, without its line end.
        signer: Has signed it.

    Returns:
        Its fields; None where its signature is not right, or it has none.
    """
    match = _LINE.fullmatch(raw)
    if match is None or not signer.is_right(match[1], match[2].decode()):
        return None
    fields: dict[str, Any] = json.loads(raw)
    return fields


def last_line(fd: int) -> tuple[bytes | None, int]:
    """The last whole line of a file, and how many bytes stand behind its end.

    Args:
        fd: The file.

    Returns:
        The line without its line end, or None where there is none; and the bytes of a line that was torn off.
    """
    size = os.fstat(fd).st_size
    start, text = size, b""
    while start > 0 and text.count(b"\n") < 2:
        step = min(start, max(_STEP, len(text)))
        start -= step
        os.lseek(fd, start, os.SEEK_SET)
        text = os.read(fd, step) + text
    whole, end, torn = text.rpartition(b"\n")
    if not end:
        return None, len(text)
    return whole.rpartition(b"\n")[2], len(torn)

"""Whether an audit is as it was written.

Comes in: an audit, what the journal, the notebook and this user's notes know of how far it went. Goes out: a verdict,
with the first line that is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeact_kernel.errors import RecordError
from codeact_kernel.policy.chain import Head, sealed
from codeact_kernel.runfiles import open_plain
from codeact_kernel.signing import Signer

_AUDITED = re.compile(rb'\{"type": "Audited", "lines": (\d{1,15}), "head": "([0-9a-f]{64})"[,}]')


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of it."""

    lines: int
    """Lines that are as they were written, up to the first that is not."""
    wrong: int | None = None
    """The first line that is not, counted from 1; None where there is none."""
    reason: str = ""
    """What is wrong with it, in one line."""
    name: str = ""
    """The audit's own name."""
    vouched: int = 0
    """Lines that somebody else knows of, so that they cannot have been cut off unseen."""
    witnesses: tuple[str, ...] = ()
    """Who knows of them."""

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong."""
        return self.wrong is None


def verify(path: Path, signer: Signer, heads: Sequence[Head] = (), lost: bool = False) -> Verdict:
    """Check an audit.

    Args:
        path: The file.
        signer: Has signed it.
        heads: How far it went, as far as others know.
        lost: Whether a line is right that says how many before it could not be written.

    Raises:
        RecordError: If the file cannot be read.
    """
    macs: list[str] = []
    name = ""
    try:
        with open_plain(path) as file:
            for number, raw in enumerate(file, 1):
                reason, fields = _look(raw, number, macs[-1] if macs else "", signer)
                if not reason and name not in ("", fields.get("audit")):
                    reason = "it is of another audit"
                if not reason and fields.get("lost") and not lost:
                    reason = (
                        f"{fields['lost']} lines before it could not be written when they should have been"
                    )
                if reason:
                    return Verdict(len(macs), number, f"line {number}: {reason}", name)
                name = str(fields.get("audit"))
                macs.append(fields["mac"])
    except OSError as error:
        raise RecordError(f"the audit {path} cannot be read: {error.strerror or error}") from error
    return _compared(macs, name, heads)


def _look(raw: bytes, number: int, before: str, signer: Signer) -> tuple[str, dict[str, Any]]:
    """What is wrong with a line by itself or behind the one before it; empty where nothing is. And what it says."""
    if not raw.endswith(b"\n"):
        return "it is cut off in the middle", {}
    fields = sealed(raw[:-1], signer)
    if fields is None:
        if number == 1 and (key := _key_of(raw)) not in ("", signer.name):
            return f"it was signed with another key ({key}) than the one of this user ({signer.name})", {}
        return "it was changed, or is none that was written: its signature is not right", {}
    n = fields["n"]
    if n > number:
        missing = f"line {number} is" if n == number + 1 else f"lines {number} to {n - 1} are"
        return f"{missing} missing here: this one was written as line {n}", {}
    if n < number:
        return f"it was written as line {n}: lines were repeated or put in another order", {}
    if fields["prev"] != before:
        return "it does not go on from the line before it", {}
    return "", fields


def _compared(macs: list[str], name: str, heads: Sequence[Head]) -> Verdict:
    vouched = 0
    for head in sorted(heads, key=lambda head: head.lines):
        if head.lines > len(macs):
            reason = (
                f"line {len(macs) + 1}: it is missing: there were {head.lines:,}, as {head.witness} has it"
            )
            return Verdict(len(macs), len(macs) + 1, reason, name, vouched)
        if head.lines > 0 and macs[head.lines - 1] != head.head:
            reason = f"line {head.lines}: it is another one than {head.witness} has"
            return Verdict(head.lines - 1, head.lines, reason, name, vouched)
        vouched = max(0, head.lines)
    return Verdict(len(macs), None, "", name, vouched, tuple(dict.fromkeys(head.witness for head in heads)))


def name_of(path: Path) -> str:
    """What an audit calls itself, whether that is true or not; empty where it says nothing."""
    with suppress(OSError, ValueError, AttributeError, RecursionError), open_plain(path) as file:
        return str(json.loads(file.readline()).get("audit") or "")
    return ""


def _key_of(raw: bytes) -> str:
    with suppress(ValueError, AttributeError, RecursionError):
        return str(json.loads(raw).get("key") or "")
    return ""


def journal_heads(path: Path) -> Iterator[Head]:
    """What a journal knows; nothing where there is none.

    Raises:
        RecordError: If it cannot be read.
    """
    try:
        with open_plain(path) as file:
            for line in file:
                if (match := _AUDITED.match(line)) is not None:
                    yield Head(int(match[1]), match[2].decode(), "the journal")
    except FileNotFoundError:
        return
    except OSError as error:
        raise RecordError(f"the journal {path} cannot be read: {error.strerror or error}") from error


def notebook_heads(path: Path) -> Iterator[Head]:
    """What a notebook knows; nothing where there is none.

    Raises:
        RecordError: If it cannot be read.
    """
    try:
        with open_plain(path) as file:
            about = json.load(file)["metadata"]["codeact"]["audit"]
        yield Head(int(about["lines"]), str(about["head"]), "the notebook")
    except (FileNotFoundError, KeyError, TypeError):
        return
    except (OSError, ValueError, OverflowError, RecursionError) as error:
        raise RecordError(f"the notebook {path} cannot be read: {error}") from error

"""Attributes: from what a model wrote to the fields of a block.

Comes in: the text of an opening tag, or the arguments of a call. Goes out: a `Draft` that waits for its
payload, and then the block; or a `Fault` that tells the model what to write instead. Both protocols pass
through here, so that an id, a duration or a list of names means the same in each.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from codeact_kernel.blocks import AgentBlock, Block, Cancel, CodeBlock, Fault, parse_duration

KNOWN: dict[str, tuple[str, ...]] = {
    "run_code": ("id", "timeout", "heartbeat", "after", "lane", "boundary"),
    "run_agent": ("name", "namespace", "model", "timeout", "heartbeat", "after", "boundary"),
    "cancel": ("id",),
}
"""What the model can write, and the attributes of each."""

LANES = ("main", "async", "worker")
_ID = r"[\w.:@+/-]{1,64}"
"""What an id or a name looks like. It has no space and no comma, so that `after` can list it, and no
quote."""

_MAX_HEAD = 2000
"""Characters of the longest opening tag that is waited for; a longer one is unreadable."""
_NAME = r"[^\W\d][\w.:-]*"
_ATTRIBUTE = re.compile(
    rf"""\s*({_NAME})(?:\s*=\s*(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"'<>=]+?)(?=\s|/?>))|(?![\w.:-]|\s*=))"""
)
_UNFINISHED = re.compile(rf"""\s*(?:{_NAME}\s*(?:=\s*(?:"[^"\n]*|'[^'\n]*|[^\s"'<>=]*))?)?/?\Z""")
_END = re.compile(r"\s*(/?)>")


@dataclass(frozen=True, slots=True)
class Head:
    """An opening tag, read."""

    pairs: tuple[tuple[str, str | None], ...]
    """Names and values in the order in which they stand; None for a name without a value."""
    end: int
    """Where in the text the tag ends."""
    self_closing: bool = False
    unreadable: str = ""
    """What could not be read, if anything; the tag then ends behind its name."""


def read_head(text: str, start: int) -> Head | None:
    """Read an opening tag from behind its name.

    Args:
        text: The text that holds the tag.
        start: The index behind the tag's name.

    Returns:
        The tag, or None where its end has not come yet. A tag may go on over several lines; a quoted value
        may not, so that a forgotten quote costs one block and not the rest of the reply.
    """
    pairs: list[tuple[str, str | None]] = []
    at = start
    while (end := _END.match(text, at)) is None:
        attribute = _ATTRIBUTE.match(text, at)
        if attribute is None:
            break
        name, *values = attribute.groups()
        pairs.append((name, next((value for value in values if value is not None), None)))
        at = attribute.end()
    unfinished = end is None and _UNFINISHED.match(text, at) is not None
    if max(at, len(text) if unfinished else 0) - start > _MAX_HEAD:
        return Head((), start, unreadable="its length")
    if unfinished:
        return None
    if end is None:
        read = text[max(text.rfind("<", 0, start), at - 30) : at].strip()
        return Head((), start, unreadable=f"what follows {read!r}")
    return Head(tuple(pairs), end.end(), bool(end[1]))


@dataclass(frozen=True, slots=True)
class Draft:
    """A block whose attributes are settled and whose payload is still to come."""

    kind: str
    label: str
    """How the block is called in a message to the model."""
    fields: dict[str, Any]
    boundary: str | None = None

    @property
    def id(self) -> str | None:
        """The id or name that the model gave it."""
        return self.fields.get("id")


@dataclass(slots=True)
class Desk:
    """Makes the blocks of one reply, and keeps the ids that the reply has given.

    Args:
        in_use: Ids and names that are alive; a numbered one ("dl#2") takes its name ("dl").
        word: What the protocol calls an attribute.
        bounded: Whether the protocol has boundaries.
    """

    in_use: Collection[str] = ()
    word: str = "attribute"
    bounded: bool = True
    _given: set[str] = field(default_factory=set)
    _alive: frozenset[str] = field(init=False)
    _number: int = 0

    def __post_init__(self) -> None:
        self._alive = frozenset(name.partition("#")[0] for name in self.in_use)

    def draft(self, kind: str, pairs: Sequence[tuple[str, Any]], unreadable: str = "") -> Draft | Fault:
        """Settle the attributes of a block.

        Args:
            kind: "run_code" or "run_agent".
            pairs: Names and values, as text or as JSON values.
            unreadable: What of its tag could not be read, if anything.

        Returns:
            The draft, or the fault to tell the model. A block with a fault does not take its id.
        """
        self._number += 1
        values, problems = self._settle(kind, pairs, unreadable)
        key = "name" if kind == "run_agent" else "id"
        name = values.pop(key, None)
        label = f'{kind} "{name}"' if name else f"{kind} (block {self._number} of your reply)"
        if problems:
            known = ", ".join(self._known(kind))
            message = f"{label} did not run: {'; '.join(problems)}. It takes {known}."
            return Fault("attribute", message, name)
        if name in self._given or name in self._alive:
            why = "was given earlier in this reply" if name in self._given else "belongs to one that is alive"
            message = f'{label} did not run: the {key} "{name}" {why}. Give it another {key}, or none.'
            return Fault("duplicate", message, name)
        boundary = values.pop("boundary", None)
        return Draft(kind, label, {"id": name, **values}, boundary)

    def block(self, draft: Draft, payload: str) -> Block | Fault:
        """Join a draft and its payload; from here on its id is given."""
        if draft.kind == "run_agent" and not payload.strip():
            message = f"{draft.label} did not start: it has no task. Write the task between the tags."
            return Fault("empty", message, draft.id)
        if draft.id:
            self._given.add(draft.id)
        if draft.kind == "run_code":
            return CodeBlock(payload, **draft.fields)
        return AgentBlock(payload, **draft.fields)

    def cancel(self, pairs: Sequence[tuple[str, Any]], unreadable: str = "") -> Cancel | Fault:
        """Read a cancel, whose only attribute is the id of a block or the name of an agent."""
        values, problems = self._settle("cancel", pairs, unreadable)
        if not problems and not values.get("id"):
            problems.append('it needs an id, as in <cancel id="dl"/>')
        if problems:
            return Fault("attribute", f"Nothing was cancelled: {'; '.join(problems)}.", values.get("id"))
        return Cancel(values["id"])

    def _known(self, kind: str) -> tuple[str, ...]:
        return tuple(name for name in KNOWN[kind] if self.bounded or name != "boundary")

    def _settle(
        self, kind: str, pairs: Sequence[tuple[str, Any]], unreadable: str
    ) -> tuple[dict[str, Any], list[str]]:
        known = self._known(kind)
        values: dict[str, Any] = {}
        problems: list[str] = []
        if unreadable:
            problems.append(f"its opening tag has a slip: {unreadable} cannot be read")
        for name, value in pairs:
            if name not in known:
                problems.append(f'it has no {self.word} "{name}"{_closest(name, known)}')
            elif name in values:
                problems.append(f"{name} is given twice")
            elif value is None:
                problems.append(f"{name} has no value")
            else:
                try:
                    values[name] = (_target if kind == "cancel" else _READERS[name])(value)
                except ValueError as error:
                    problems.append(f"{name} {error}")
        return {name: value for name, value in values.items() if value is not None}, problems


def _closest(name: str, known: Sequence[str]) -> str:
    swapped = {"id": "name", "name": "id"}.get(name.lower())
    near = [swapped] if swapped in known else difflib.get_close_matches(name.lower(), known, 1, 0.5)
    return f' (did you mean "{near[0]}"?)' if near else ""


def _word(fits: Callable[[str], Any], rule: str) -> Callable[[Any], str | None]:
    def read(value: Any) -> str | None:
        text = str(value).strip() if isinstance(value, str | int) else repr(value)
        if text and not fits(text):
            raise ValueError(f"{text[:80]!r} cannot be used: {rule}")
        return text or None

    return read


def _list(read: Callable[[Any], str | None]) -> Callable[[Any], tuple[str, ...]]:
    def read_all(value: Any) -> tuple[str, ...]:
        items = value if isinstance(value, list) else re.split(r"[\s,]+", str(value))
        return tuple(name for item in items if (name := read(item)))

    return read_all


def _duration(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**63:
        return float(value)
    return parse_duration(str(value))


def _lane(value: Any) -> str:
    if value not in LANES:
        raise ValueError(f"{value!r} is no lane: write {', '.join(LANES[:-1])} or {LANES[-1]}")
    return str(value)


_ID_RULE = "an id is up to 64 letters, digits and _ - . : @ + /"
_id = _word(re.compile(_ID).fullmatch, _ID_RULE)
_target = _word(re.compile(rf"{_ID}(?:#\d+)?").fullmatch, _ID_RULE)
_READERS: dict[str, Callable[[Any], Any]] = {
    "id": _id,
    "name": _id,
    "timeout": _duration,
    "heartbeat": _duration,
    "after": _list(_target),
    "lane": _lane,
    "namespace": _list(_word(str.isidentifier, "list names of the namespace, separated by commas")),
    "model": _word(re.compile(r"""[^\s"'<>]{1,200}""").fullmatch, "a model has no space, quote or < > in it"),
    "boundary": _word(re.compile(r"""[^\s"'<>]{1,64}""").fullmatch, "a boundary is one short word"),
}

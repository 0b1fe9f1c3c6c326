"""The tag grammar, read as a reply streams.

Comes in: a reply's characters, in pieces of any size. Goes out: prose, blocks, cancels and faults, each as
soon as it is certain. A block is certain at the last character of its closing tag, which stands at the
start of a line; what follows on that line is read like the start of a line. A block on one line is certain
at the line's end. `docs/design/grammar.md` tells the rules and why they are so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from codeact_kernel.blocks import Fault
from codeact_kernel.dialogue.attributes import Desk, Draft, read_head
from codeact_kernel.dialogue.payload import BLANK, SPACE, clean
from codeact_kernel.dialogue.reader import Items, TextReader
from codeact_kernel.dialogue.vocabulary import FROM_MODEL

_CLOSING = re.compile(r"</(run_code|run_agent)(?:[ \t][^<>\n]*)?>")
_MAYBE_CLOSING = re.compile(r"(?:^|\n)[ \t]*<[^>\n]*\Z")
_CANCEL_END = re.compile(r"[ \t]*(?:</cancel[ \t]*>)?")


@dataclass(slots=True)
class _Block:
    """A block whose closing tag has not come."""

    kind: str
    draft: Draft | None
    """None where a fault has been told already and only the end is looked for."""
    boundary: str | None
    indent: str
    """White space before the opening tag: text behind the tag is indented as much."""
    parts: list[str] = field(default_factory=list)
    """The payload, as it came."""
    windows: bool = False
    """Whether the opening tag's line ended in carriage return and line feed."""

    def first_line(self, line: str) -> None:
        """Take what stands behind the opening tag on its line."""
        if self.boundary is not None:
            self.windows = line == "\r"
            self.parts.append("" if line in ("", "\r") else line + "\n")
        elif line.strip(BLANK):
            self.parts.append(f"{self.indent}{line.lstrip(BLANK)}\n")

    def closed(self, text: str, at: int) -> int | None:
        """Where a closing tag that begins at an index ends, if it is this block's."""
        tag = _CLOSING.match(text, at)
        if tag is None or tag[1] != self.kind:
            return None
        head = read_head(tag[0], len(self.kind) + 2)
        if head is None or head.unreadable or dict(head.pairs).get("boundary") != self.boundary:
            return None
        return tag.end()

    def closed_by_end_of(self, text: str) -> int | None:
        """Where this block's closing tag begins, if it is the last thing in a text."""
        at = text.rfind(f"</{self.kind}")
        return at if at >= 0 and self.closed(text, at) == len(text.rstrip(BLANK)) else None

    def payload(self, raw: str) -> str:
        """What of the characters between the tags is the payload."""
        if self.boundary is None:
            return clean(self.kind, raw)
        return raw.removesuffix("\r\n" if self.windows and raw.endswith("\r\n") else "\n")


class TagReader(TextReader):
    """Reads one reply in the tag grammar.

    Args:
        compiles: Whether code compiles after the kernel's own transform.
        in_use: Ids and names that are alive.
    """

    opener = rf"<(?P<kind>{'|'.join(FROM_MODEL)})(?=[\s/>])"
    opening_words = tuple(f"<{kind}" for kind in FROM_MODEL)

    def __init__(self, compiles: Callable[[str], bool], in_use: Collection[str] = ()) -> None:
        super().__init__(Desk(in_use))
        self._compiles = compiles
        self._kind = ""
        self._block = _Block("", None, None, "")

    @property
    def writing(self) -> tuple[str, str] | None:
        """As `ReplyReader`."""
        if self._step not in (self._first, self._body):
            return None
        came = "".join((*self._block.parts, self._rest, *self._fresh))
        return self._kind, self._block.payload(_MAYBE_CLOSING.sub("", came))

    # The steps of a tag.

    def _open(self, tag: re.Match[str]) -> int:
        self._kind = tag["kind"]
        if self._kind == "cancel":
            self._enter(self._cancel, "\n")
        else:
            self._enter(self._head, ">")
        return tag.start("tag")

    def _cancel(self, text: str, at: int, out: Items) -> int:
        end = text.find("\n", at)
        if end < 0:
            return at
        self._enter(self._prose)
        return at + self._read_cancel(text[at:end], out)

    def _head(self, text: str, at: int, out: Items) -> int:
        head = read_head(text, at + len(self._kind) + 1)
        if head is None:
            return at
        self._acted = True
        draft = self._desk.draft(self._kind, head.pairs, head.unreadable)
        if isinstance(draft, Fault):
            out.append(draft)
        elif head.self_closing:
            out.append(Fault("empty", f"{draft.label} did not run: its tag closes itself.", draft.id))
        boundary = dict(head.pairs).get("boundary") or None
        self._block = _Block(
            self._kind, None if isinstance(draft, Fault) else draft, boundary, self._indent()
        )
        if head.self_closing:
            self._prose_again()
        else:
            self._enter(self._first, "\n")
        return head.end

    def _first(self, text: str, at: int, out: Items) -> int:
        """The opening tag's line: all of a block, or the beginning of its payload."""
        end = text.find("\n", at)
        if end < 0:
            return at
        line = text[at:end]
        closing = self._block.closed_by_end_of(line)
        if closing is not None:
            self._close(line[:closing], out)
            return at + len(line.rstrip(BLANK))
        self._block.first_line(line)
        self._at_line_start = True
        self._enter(self._body, ">")
        return end + 1

    def _body(self, text: str, at: int, out: Items) -> int:
        closer, seen = f"</{self._kind}", at
        while (found := text.find(closer, seen)) >= 0:
            line = self._line_start(text, at, found)
            end = None if line is None else self._block.closed(text, found)
            if end is not None:
                self._block.parts.append(text[at:line])
                self._close("".join(self._block.parts), out)
                return end
            seen = found + len(closer)
        held = self._may_close(text, at, closer)
        self._at_line_start = held is not None
        self._block.parts.append(text[at:held])
        return len(text) if held is None else held

    def _line_start(self, text: str, at: int, tag: int) -> int | None:
        """Where the line of a tag begins, if only white space stands before it."""
        while tag > at and text[tag - 1] in SPACE:
            tag -= 1
        begins = self._at_line_start if tag == at else text[tag - 1] == "\n"
        return tag if begins else None

    def _may_close(self, text: str, at: int, closer: str) -> int | None:
        """Where the last line begins, if it may become a closing tag."""
        line = text.rfind("\n", at) + 1
        if not line:
            if not self._at_line_start:
                return None
            line = at
        begun = text[line:].lstrip(SPACE)
        may = closer.startswith(begun) or (begun.startswith(closer) and ">" not in begun)
        return line if may else None

    # The ends of a block.

    def _prose_again(self) -> None:
        self._at_line_start = True
        self._enter(self._prose)

    def _close(self, raw: str, out: Items) -> None:
        block = self._block
        if block.draft:
            out.append(self._desk.block(block.draft, block.payload(raw)))
        self._prose_again()

    def _end(self, reason: str | None, out: Items) -> None:
        if not self._in_block:
            super()._end(reason, out)
            return
        self._over, rest = True, self._rest
        if self._step == self._cancel:
            self._read_cancel(rest, out)
        elif self._step == self._head:
            message = f"Your reply ended inside the tag <{self._kind}, before its >. Nothing of it ran."
            out.append(Fault("unclosed", message))
        else:
            by_itself = reason == "stop"
            raw = "".join((*self._block.parts, rest))
            closing = self._block.closed_by_end_of(raw) if by_itself else None
            if closing is None:
                self._unclosed(raw, out, by_itself=by_itself)
            else:
                self._close(raw[:closing], out)

    def _unclosed(self, raw: str, out: Items, *, by_itself: bool) -> None:
        draft, payload = self._block.draft, self._block.payload(raw)
        if draft is None:
            return
        tag = f'</{draft.kind} boundary="{draft.boundary}">' if draft.boundary else f"</{draft.kind}>"
        runs = bool(by_itself and draft.kind == "run_code" and payload.strip() and self._compiles(payload))
        if runs:
            out.append(self._desk.block(draft, payload))
            message = (
                f"Its closing tag was missing; it ran all the same. End a block with {tag} on its own line."
            )
        else:
            where = " at the start of a line" if f"</{draft.kind}" in raw else ""
            message = f"{draft.label} did not run: {tag} is missing{where}. Write the block again, whole."
        out.append(Fault("unclosed", message, draft.id, runs))

    def _abandon(self, out: Items) -> None:
        if not self._in_block:
            super()._abandon(out)
            return
        self._over = True
        if self._step == self._cancel:
            self._read_cancel(self._rest, out)
            return
        draft = self._block.draft if self._step != self._head else None
        label = draft.label if draft else f"A {self._kind} block"
        message = f"{label} was cut off before its end and did not run. Write it again, in shorter blocks."
        out.append(Fault("cut", message, draft.id if draft else None))

    def _read_cancel(self, line: str, out: Items) -> int:
        """Read a line that begins with a cancel and has to hold nothing else; in a sentence it is prose."""
        head = read_head(line, len("<cancel"))
        solid = line.rstrip(BLANK)
        unreadable = bool(head and head.unreadable and solid.endswith(">"))
        if head and (unreadable or _CANCEL_END.fullmatch(solid, head.end)):
            self._acted = True
            self._at_line_start = True
            out.append(self._desk.cancel(head.pairs, head.unreadable))
            return len(solid)
        self._at_line_start = False
        self._say(line, out)
        return len(line)

    def _indent(self) -> str:
        """The white space on the line of the tag that has just begun."""
        parts: list[str] = []
        for blank in reversed(self._blank):
            parts.append(blank[blank.rfind("\n") + 1 :])
            if "\n" in blank:
                break
        return "".join(reversed(parts))

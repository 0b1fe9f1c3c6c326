"""The tag grammar, written: the inverse of reading it.

Comes in: the parts of a reply. Goes out: a text that reads as just these parts, whatever their payloads hold.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from decimal import Decimal

from codeact_kernel.blocks import AgentBlock, Block, Cancel, CodeBlock, Part, Prose
from codeact_kernel.dialogue.payload import BLANK, clean
from codeact_kernel.dialogue.vocabulary import imitates


def format_parts(parts: Sequence[Part]) -> str:
    """Write the parts of a reply in the tag grammar.

    A payload that reading would change, or that holds one of the grammar's tags at the start of a line,
    travels inside a boundary: a random word, fresh each time, that the payload does not hold.

    Args:
        parts: What a reader returned, in order.

    Returns:
        A reply that reads as the same parts. Prose that no reader returns (it begins a line with a tag, say)
        is written as it is.
    """
    out: list[str] = []
    gaps: list[int] = []
    spoke = False
    for part in parts:
        if not isinstance(part, Prose):
            if out:
                gaps.append(len(out))
                out.append("\n")
            out.append(_format_block(part))
            continue
        text = part.text
        if spoke:
            text = _spread(text, gaps, out)
        elif out:
            text = "\n" + text
        elif text.lstrip(BLANK).startswith("<think>"):
            text = "<think></think>" + text
        out.append(text)
        gaps.clear()
        spoke = True
    return "".join(out)


def _spread(text: str, gaps: list[int], out: list[str]) -> str:
    """Share the white space before prose among the gaps round the blocks between it and the prose before.

    Reading joins that white space; so each gap takes a line's worth, and the rest stays with the text.
    """
    blank = text[: len(text) - len(text.lstrip(BLANK))]
    taken = 0
    for gap in gaps:
        line = blank.find("\n", taken) + 1
        must_break = gap == gaps[0] or out[gap - 1].startswith("<cancel")
        out[gap] = blank[taken:line] or ("\n" if must_break else "")
        taken = max(taken, line)
    rest = text[taken:]
    must_break = bool(gaps) and out[-1].startswith("<cancel") and "\n" not in blank[taken:]
    return "\n" + rest if must_break else rest


def _format_block(part: Block | Cancel) -> str:
    if isinstance(part, Cancel):
        return f"<cancel{attribute('id', part.id)}/>"
    kind, payload = ("run_code", part.code) if isinstance(part, CodeBlock) else ("run_agent", part.task)
    boundary = ""
    if clean(kind, payload + "\n") != payload or imitates(payload):
        boundary = attribute("boundary", _fresh_word(payload))
    body = payload if not payload and not boundary else payload + "\n"
    return f"<{kind}{_attributes(part)}{boundary}>\n{body}</{kind}{boundary}>"


def _attributes(block: Block) -> str:
    written: list[tuple[str, str | None]]
    if isinstance(block, CodeBlock):
        written = [("id", block.id)]
    else:
        written = [
            ("name", block.id),
            ("namespace", ", ".join(block.namespace) or None),
            ("model", block.model),
        ]
    written += [
        ("timeout", _duration(block.timeout)),
        ("heartbeat", _duration(block.heartbeat)),
        ("after", None if block.after is None else ", ".join(block.after)),
        ("lane", None if isinstance(block, AgentBlock) else block.lane),
    ]
    return "".join(attribute(name, value) for name, value in written if value is not None)


def _duration(seconds: float | None) -> str | None:
    """Write every digit: a float's shortest form, without an exponent, reads as the same float."""
    if seconds is None:
        return None
    digits = format(Decimal(repr(seconds)), "f")
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + "s"


def attribute(name: str, value: str) -> str:
    """Write an attribute; a value can hold neither a quote nor the end of a tag.

    Args:
        name: The attribute.
        value: Its value; line ends, double quotes and angle brackets are replaced by their likes.
    """
    return f' {name}="{" ".join(value.split()).translate(_LIKES)}"'


_LIKES = str.maketrans({'"': "'", "<": "(", ">": ")"})


def _fresh_word(payload: str) -> str:
    while (word := secrets.token_hex(4)) in payload:
        pass
    return word

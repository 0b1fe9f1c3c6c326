"""The tags of the grammar, and how a text that imitates them is seen.

Comes in: a text of any origin. Goes out: whether it holds one of our tags where a reader would take it for
one.
"""

from __future__ import annotations

import re

FROM_MODEL = ("run_code", "run_agent", "cancel")
TO_MODEL = (
    "run_code_result",
    "agent_result",
    "running",
    "note",
    "reminder",
    "fault",
    "knowledge",
    "alive",
)

_TAG = re.compile(rf"<\s*(?:(/)\s*)?(?:{'|'.join(TO_MODEL + FROM_MODEL)})(?![\w-])", re.IGNORECASE)
_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_INVISIBLE = (
    "".join(map(chr, (*range(0x21), *range(0x7F, 0xA1), 0xAD)))
    + "\u1680\u180e\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u200b\u200c\u200d\u200e"
    + "\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u202f\u205f\u2060\u2061\u2062\u2063\u2064\u3000\ufeff"
)
"""What a reader does not see: spaces, controls, marks without width."""


def holds_tag(text: str) -> bool:
    """Whether any of our tags stands anywhere in a text, also as part of a sentence."""
    return _TAG.search(text) is not None


def imitates(text: str) -> bool:
    """Whether a text would be misread between two plain tags.

    It would where one of our tags, opening or closing, begins a line, and where it ends in an opening tag, so
    that our closing tag would seem to belong to that. Here a line also begins at every other separator of
    lines, letters may be capitals, and marks that are not seen count as space: what is misread is read by a
    model, not by a parser.

    Args:
        text: The payload of a block or the body of a report.
    """
    last = 0
    tag: re.Match[str] | None = None
    for tag in _TAG.finditer(text):
        gap = text[last : tag.start()]
        seen = gap.rstrip(_INVISIBLE)
        if (last == 0 and not seen) or any(mark in _BREAKS for mark in gap[len(seen) :]):
            return True
        last = tag.end()
    if tag is None or tag[1]:
        return False
    rest = text[last:].rstrip(_INVISIBLE)
    return not rest or rest.endswith(">") or ">" not in rest

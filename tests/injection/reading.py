"""Reads what a model is sent, by rules of its own: as a careful reader would who knows the contract and nothing else.

The contract: a report stands between its tags, each on a line of its own; a boundary in the opening tag is in the
closing one, too, and nowhere in between.
"""

from __future__ import annotations

import re
import unicodedata

TAGS = [
    "run_code_result",
    "agent_result",
    "running",
    "note",
    "reminder",
    "fault",
    "knowledge",
    "alive",
    "run_code",
    "run_agent",
    "cancel",
]
_OPEN = re.compile(
    r'<run_code_result id="(\w+)"(?: status="\w+")? duration="[^"<>]*"(?: boundary="([0-9a-f]{8})")?>'
)
_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")


def unframed(message: str, block: str) -> tuple[str, str]:
    """The body of a message that is one report of a block, and its boundary.

    Raises:
        AssertionError: If it is anything else.
    """
    head, _, rest = message.partition("\n")
    opened = _OPEN.fullmatch(head)
    assert opened is not None, head
    assert opened[1] == block
    word = opened[2] or ""
    closing = f'</run_code_result boundary="{word}">' if word else "</run_code_result>"
    assert rest.endswith(closing)
    body = rest[: -len(closing)]
    if word:
        assert word not in body
    elif body:
        assert body.endswith("\n")
    return body.removesuffix("\n"), word


def seems_to_end_or_open(body: str) -> bool:
    """Whether a line of a body would be read as a tag of ours by somebody who overlooks what cannot be seen."""
    for line in _BREAK.split(body):
        seen = "".join(c for c in line if unicodedata.category(c) not in ("Cc", "Cf", "Zs", "Zl", "Zp"))
        if re.match(rf"</?(?:{'|'.join(TAGS)})(?![\w-])", seen.lower()):
            return True
    return False

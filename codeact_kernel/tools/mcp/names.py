"""What a server calls things, made fit for Python code and for a reader.

Comes in: names and texts of strangers. Goes out: identifiers that differ from each other, and texts without characters
that hide or steer.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode's categories of characters that no reader sees: controls, formats (bidirectional ones, tags), and what is no
character."""
_KEPT = "\n\t\u200c\u200d"
"""Those of them that stay: without the joiners Persian words and many emojis are others."""

LONGEST = 100
"""Characters of an identifier. Ours: the protocol allows 128 in a tool's name, and nobody uses half of it."""


def identifier(name: str, taken: Collection[str] = ()) -> str:
    """Make a Python identifier of a name.

    Args:
        name: Any text; of a long one the first `LONGEST` characters count.
        taken: Identifiers that it must differ from.

    Returns:
        The name itself where that will do. Else what is no letter, digit or underscore becomes "_", a keyword gets a
        "_" at its end, a leading digit or underscore an "x" before it, and a name that is taken a number.
    """
    text = re.sub(r"\W", "_", unicodedata.normalize("NFKC", name[:LONGEST])) or "x"
    if not text.isidentifier() or text.startswith("_"):
        text = f"x{text}" if text.startswith("_") else f"x_{text}"
    if not text.isidentifier():
        text = "x_" + re.sub(r"[^0-9A-Za-z_]", "_", text)
    if keyword.iskeyword(text):
        text += "_"
    base, number = text, 2
    while text in taken:
        text, number = f"{base}_{number}", number + 1
    return text


def clean(text: object, limit: int) -> str:
    """Take a text of a stranger for a reader: nothing hidden in it, and not too long.

    Args:
        text: The text; what is no text is taken for an empty one.
        limit: Characters at most; of a longer text the beginning stays, and "…".
    """
    if not isinstance(text, str):
        return ""
    # What is far too long is not looked at; the factor leaves room for what is dropped.
    seen = text[: 8 * limit].replace("\r\n", "\n").replace("\r", "\n")
    if not seen.replace("\n", "").replace("\t", "").isprintable():
        seen = "".join(c for c in seen if c in _KEPT or unicodedata.category(c) not in _UNSEEN)
    seen = seen.strip()
    return seen if len(seen) <= limit else seen[: limit - 1].rstrip() + "…"


def one_line(text: object, limit: int) -> str:
    """Take a text of a stranger as one line; as `clean`."""
    return clean(" ".join(clean(text, 8 * limit).split()), limit)


class Secrets:
    """Values that must not be seen, and their place in a text taken by "***".

    Args:
        values: The values. Those of fewer than six characters are left alone: they are found in any text.
    """

    SHORTEST = 6

    def __init__(self, values: Collection[str] = ()) -> None:
        parts = {part for value in values for part in (value, *value.split()) if len(part) >= self.SHORTEST}
        longest_first = sorted(parts, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if parts else None

    def hide(self, text: str) -> str:
        """Return the text without the values."""
        return self._pattern.sub("***", text) if self._pattern else text

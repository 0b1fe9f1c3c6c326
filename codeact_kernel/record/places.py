"""Where in a run's folder the records of its sub-agents are.

Comes in: the name of a sub-agent. Goes out: the path of its folder, seen from that of its parent.
"""

from __future__ import annotations

import re
import unicodedata

AGENTS = "agents"
"""The folder of a run in which the records of its sub-agents are."""
_SLUG = 40


def slug(text: str) -> str:
    """Make a short, plain name of a text.

    Args:
        text: Any text.

    Returns:
        Lower-case letters, digits and dashes, at most 40; "run" where nothing is left.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
    return words[:_SLUG].rstrip("-") or "run"

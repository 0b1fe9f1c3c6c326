"""The terminal, as everything that is drawn on it reaches it.

Comes in: what rich can render. Goes out: its text without anything that the terminal would obey. The sequences that
rich makes itself, for colours and for lines that change, are the only ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from codeact_kernel.controls import shown


class TerminalConsole(Console):
    """A console of rich's that takes no text for a command, whoever has forgotten to clean it."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does it; what is drawn passes here, and nowhere else."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else _harmless(segment)


def _harmless(segment: Segment) -> Segment:
    text, style, _ = segment
    if not text.replace("\n", "").isprintable():
        text = shown(text.replace("\r", ""))
    if style is not None and style.link:
        style = style.update_link(None)
    return Segment(text, style)

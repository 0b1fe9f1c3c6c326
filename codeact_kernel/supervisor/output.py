"""What one block has put out, kept whole.

Comes in: a block's outputs, one after the other, until its end and after. Goes out: the outputs with their
streams joined (for the result), all of it as one text (for `self.output`), what is new since a mark (for
heartbeats) and the last line (for progress displays). Everything is kept in memory, and only here: a log that
spills to disk would replace this one class.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from codeact_kernel.blocks import DisplayOutput, ErrorOutput, Output, ResultOutput, StreamOutput

_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""Terminal control sequences: CSI and OSC, as ECMA-48 defines them."""

_LINE_LIMIT = 200
"""Characters of the last line that a progress display gets; ours, about two terminal lines."""

_TAIL = 8 * _LINE_LIMIT
"""Characters that are looked through for the last line; ours, so that a display can ask often."""

_LAST_PIECES = 50
"""Outputs that are looked through for the last line; a block that prints a character at a time has many."""


class OutputLog:
    """Everything that one block has put out, in order."""

    def __init__(self) -> None:
        self._outputs: list[Output] = []

    def add(self, output: Output) -> None:
        """Append an output."""
        self._outputs.append(output)

    @property
    def mark(self) -> int:
        """Where the log ends now, for `since`. Marks are good until `joined` is called."""
        return len(self._outputs)

    def since(self, mark: int) -> str:
        """The text that came after a mark.

        Args:
            mark: An earlier value of `mark`; 0 for everything.
        """
        return as_text(self._outputs[mark:])

    @property
    def text(self) -> str:
        """All of it as one text; what `clear_output` cleared is still there."""
        return self.since(0)

    @property
    def last_line(self) -> str:
        """The last line that is not blank, without control sequences, shortened to 200 characters."""
        tail = ""
        for output in reversed(self._outputs[-_LAST_PIECES:]):
            tail = as_text([output])[-_TAIL:] + tail
            if len(tail) >= _TAIL:
                break
        for line in reversed(tail.splitlines()):
            shown = "".join(char for char in _CONTROL.sub("", line) if char.isprintable()).strip()
            if shown:
                return shown[:_LINE_LIMIT]
        return ""

    def joined(self) -> tuple[Output, ...]:
        """Join the pieces of each stretch of a stream, let go of the pieces, and return what there is."""
        self._outputs = _join(self._outputs)
        return tuple(self._outputs)


def as_text(outputs: Sequence[Output]) -> str:
    """Write outputs as one text.

    Args:
        outputs: In order. Streams are taken as they are, both into one; results and displays as their plain
            text on lines of their own; errors as their traceback without colours.
    """
    pieces: list[str] = []
    at_line_start = True
    for output in outputs:
        if isinstance(output, StreamOutput):
            piece = output.text
        elif line := _line(output):
            piece = line + "\n" if at_line_start else f"\n{line}\n"
        else:
            continue
        pieces.append(piece)
        at_line_start = piece.endswith("\n") if piece else at_line_start
    return "".join(pieces)


def _line(output: Output) -> str:
    if isinstance(output, DisplayOutput | ResultOutput):
        plain = output.data.get("text/plain")
        return plain if isinstance(plain, str) else f"<{', '.join(output.data)}>" if output.data else ""
    if isinstance(output, ErrorOutput):
        return _CONTROL.sub("", "\n".join(output.traceback)) or f"{output.ename}: {output.evalue}"
    return ""


def _join(outputs: Sequence[Output]) -> list[Output]:
    joined: list[Output] = []
    stretch: list[str] = []
    for at, output in enumerate(outputs):
        if not isinstance(output, StreamOutput):
            joined.append(output)
            continue
        stretch.append(output.text)
        following = outputs[at + 1] if at + 1 < len(outputs) else None
        if not (isinstance(following, StreamOutput) and following.name == output.name):
            joined.append(StreamOutput(output.name, "".join(stretch)))
            stretch = []
    return joined

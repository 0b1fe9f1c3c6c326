"""What one block has put out, kept whole.

Comes in: a block's outputs, one after the other, until its end and after. Goes out: the outputs, a long middle of
them left out (for the result); all of it as one text, of any length and in pages (for `self.output`); what is new
since a mark (for heartbeats); the last line (for progress displays). A long text lies in a file, so that a block
may print what it likes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from codeact_kernel.blocks import (
    ClearOutput,
    DisplayOutput,
    ErrorOutput,
    LeftOut,
    Output,
    ResultOutput,
    StreamOutput,
)
from codeact_kernel.excerpt import Excerpt
from codeact_kernel.runfiles import SpilledFile
from codeact_kernel.supervisor.tape import IN_MEMORY, Tape

_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""Terminal control sequences: CSI and OSC, as ECMA-48 defines them."""

_LINE_LIMIT = 200
"""Characters of the last line that a progress display gets; ours, about two terminal lines."""

_TAIL = 8 * _LINE_LIMIT
"""Characters that are looked through for the last line."""

_BEAT_END = 16_384
"""Characters of what is new that a heartbeat gets from each end of it; a model reads a twentieth of that."""

_STATE = 512
"""Characters that are looked back for the beginning of a progress bar's state; ours, some terminal lines."""

Mark = tuple[int, int]
"""A place in the text: characters and lines before it."""


class OutputLog:
    """Everything that one block has put out, in order.

    Args:
        place: Makes the file of a long text.
        shown: How to call that file to a reader, if it stays.
    """

    def __init__(self, place: Callable[[], SpilledFile], shown: Callable[[Path | None], str | None]) -> None:
        self.tape = Tape(place)
        """All of it as one text; what `clear_output` cleared is still there."""
        self._shown = shown
        self._excerpt = Excerpt()
        self._tail = ""
        self._at_line_start = True
        self._cleared: Mark = (0, 0)
        """Where the text begins that is still shown."""
        self._clear_next = False
        self._states: dict[str, tuple[int, int]] = {}
        """Where in the text each display stands."""
        self._old_states: list[tuple[int, int]] = []
        """Where states of displays stand that were updated since; those that adjoin are one."""

    def add(self, output: Output) -> None:
        """Append an output."""
        self._excerpt.add(output)
        if isinstance(output, ClearOutput):
            self._clear_next = output.wait
            if not output.wait:
                self._clear()
            return
        piece = _piece(output, self._at_line_start)
        if not piece:
            return
        if self._clear_next:
            self._clear()
        self._at_line_start = piece.endswith("\n")
        self._tail = (self._tail + piece[-_TAIL:])[-_TAIL:]
        start = self.tape.length
        self.tape.append(piece)
        if isinstance(output, DisplayOutput) and output.display_id:
            self._show(output.display_id, (start, self.tape.length), output.update)

    def go_on(self, outputs: Sequence[Output], length: int, files: Iterable[SpilledFile]) -> None:
        """Begin with what an earlier process has kept.

        Args:
            outputs: The outputs; of a long text all past its beginning may be left out of them.
            length: The characters of the text.
            files: Where all of it may be, if it is long.
        """
        for file in files if length >= IN_MEMORY else ():
            beginning = as_text(outputs[:1])[:_TAIL].encode("utf-8", "replace")
            if file.read(0, len(beginning)) == beginning:
                self.tape.go_on(file, length)
                for output in outputs:
                    self._excerpt.add(output)
                self._tail = self.tape.read(max(0, length - _TAIL))
                self._at_line_start = self._tail.endswith("\n")
                return
        for output in outputs:
            self.add(output)

    @property
    def mark(self) -> Mark:
        """Where the text ends now, for `since`."""
        return self.tape.length, self.tape.lines

    def since(self, mark: Mark) -> tuple[str, tuple[Output, ...]]:
        """The text that came after a mark and is still shown: not cleared, and of a display only its last state.

        Args:
            mark: An earlier value of `mark`.

        Returns:
            All of it; or where it is long its beginning, and then what is left out and its end.
        """
        (begin, before), (length, lines) = max(mark, self._cleared), self.mark
        spans = self._shown_since(begin)
        if sum(stop - start for start, stop in spans) <= 2 * _BEAT_END:
            new = "".join(self.tape.read(start, stop) for start, stop in spans)
            return (self._state_before(begin) if begin > self._cleared[0] and _goes_on(new) else "") + new, ()
        head = self.tape.read(begin, begin + _BEAT_END)
        tail = self.tape.read(length - _BEAT_END)
        left_out = LeftOut(
            length - begin - len(head) - len(tail),
            lines - before - head.count("\n") - tail.count("\n"),
            file=self._shown(self.tape.path),
        )
        return head, (left_out, StreamOutput("stdout", tail))

    def _clear(self) -> None:
        self._cleared, self._clear_next = self.mark, False
        self._states.clear()
        self._old_states.clear()

    def _show(self, display_id: str, place: tuple[int, int], update: bool) -> None:
        old = self._states.get(display_id) if update else None
        if old is not None:
            if self._old_states and self._old_states[-1][1] == old[0]:
                old = self._old_states.pop()[0], old[1]
            self._old_states.append(old)
        self._states[display_id] = place

    def _shown_since(self, begin: int) -> list[tuple[int, int]]:
        """What of the text after a place is no old state of a display."""
        spans = []
        for start, stop in sorted(self._old_states):
            if stop > begin:
                spans.append((begin, max(begin, start)))
                begin = stop
        return [*spans, (begin, self.tape.length)]

    def _state_before(self, begin: int) -> str:
        """The beginning of a progress bar's state that was cut there by the last report."""
        line = self.tape.read(max(0, begin - _STATE), begin).rpartition("\n")[2]
        return "\r" + line.rpartition("\r")[2] if "\r" in line else ""

    @property
    def last_line(self) -> str:
        """The last line that is not blank, without control sequences, shortened to 200 characters."""
        for line in reversed(self._tail.splitlines()):
            shown = "".join(char for char in _CONTROL.sub("", line) if char.isprintable()).strip()
            if shown:
                return shown[:_LINE_LIMIT]
        return ""

    def outputs(self) -> tuple[Output, ...]:
        """The outputs, with the pieces of each stretch of a stream joined, and a long middle left out."""
        return self._excerpt.outputs(self._shown(self.tape.path))


def as_text(outputs: Sequence[Output]) -> str:
    """Write outputs as one text.

    Args:
        outputs: In order. Streams are taken as they are, both into one; results and displays as their plain
            text on lines of their own; errors as their traceback without colours.
    """
    pieces: list[str] = []
    at_line_start = True
    for output in outputs:
        piece = _piece(output, at_line_start)
        pieces.append(piece)
        at_line_start = piece.endswith("\n") if piece else at_line_start
    return "".join(pieces)


def _goes_on(new: str) -> bool:
    """Whether a text may go on with a state of a line whose beginning was reported before."""
    return bool(new.strip()) and not new.startswith(("\r", "\n"))


def _piece(output: Output, at_line_start: bool) -> str:
    if isinstance(output, StreamOutput):
        return output.text
    line = _line(output)
    return line and f"{'' if at_line_start else chr(10)}{line}\n"


def _line(output: Output) -> str:
    if isinstance(output, DisplayOutput | ResultOutput):
        plain = output.data.get("text/plain")
        return plain if isinstance(plain, str) else f"<{', '.join(output.data)}>" if output.data else ""
    if isinstance(output, ErrorOutput):
        return _CONTROL.sub("", "\n".join(output.traceback)) or f"{output.ename}: {output.evalue}"
    return f"[{output} left out]" if isinstance(output, LeftOut) else ""

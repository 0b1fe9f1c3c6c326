"""The outputs of one block, with a long middle left out.

Comes in: outputs, one after the other. Goes out: the same, or their head and their tail with a `LeftOut` between
them that counts the rest exactly. What would be seen in the end decides: states of a line that were written over,
displays that were updated and output that was cleared go first, and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from codeact_kernel.blocks import (
    ClearOutput,
    DisplayOutput,
    ErrorOutput,
    LeftOut,
    Output,
    ResultOutput,
    StreamOutput,
)

TEXT = 400_000
"""Characters up to which text is kept whole; ours, a hundred times what a model reads of a result."""
TEXT_END = 100_000
"""Characters that are kept at each end of a longer one; together what a notebook's cell shows."""
DATA = 32 * 2**20
"""Characters of displays that are kept whole: some hundred pictures."""
DATA_END = 8 * 2**20
"""Characters of displays that are kept at each end of more."""
EACH = 8000
"""Characters that an output counts for besides what is in it: four thousand in one cell are the most that anybody
gets through, and shortening more would stop the loop for a moment."""
SHORT = 16_384
"""Characters up to which a piece of a stream is joined to what follows it. Joining copies: a flood of lines that
were all joined into one text would stop the loop for minutes."""


class Excerpt:
    """Outputs, shortened in the middle once they are long.

    Args:
        outputs: The first of them.
    """

    def __init__(self, outputs: Iterable[Output] = ()) -> None:
        self._head: list[Output] = []
        """All there is, as long as nothing is left out."""
        self._left_out: LeftOut | None = None
        self._tail: list[Output] = []
        self._text = self._data = 0
        """Sizes of the part that grows."""
        for output in outputs:
            self.add(output)

    def add(self, output: Output) -> None:
        """Append an output.

        Args:
            output: The output. A `LeftOut` counts as left out here, too.
        """
        if isinstance(output, LeftOut):
            self._left_out = (self._left_out or LeftOut()) + output
            return
        grown = self._head if self._left_out is None else self._tail
        if isinstance(output, StreamOutput):
            self._text += len(output.text)
        if not _join_to_last(grown, output):
            grown.append(output)
            self._data += _weight(output)
        ends = 1 if self._left_out is None else 2
        if self._text > TEXT // ends or self._data > DATA // ends:
            self._shorten(grown)

    def outputs(self, file: str | None = None) -> tuple[Output, ...]:
        """What there is, with the pieces of each stretch of a stream joined.

        Args:
            file: Where all of the text lies; goes into the `LeftOut`.
        """
        if self._left_out is None:
            return tuple(_joined(self._head))
        left_out = replace(self._left_out, file=file or self._left_out.file)
        return (*_joined(self._head), left_out, *_joined(self._tail))

    def copy(self) -> Excerpt:
        """A copy that does not change with this one."""
        copy = Excerpt()
        copy._head, copy._left_out, copy._tail = list(self._head), self._left_out, list(self._tail)
        copy._text, copy._data = self._text, self._data
        return copy

    def __iter__(self) -> Iterator[Output]:
        return iter(self.outputs())

    def __len__(self) -> int:
        return len(self.outputs())

    def __getitem__(self, index: int) -> Output:
        return self.outputs()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Excerpt) and self.outputs() == other.outputs()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Excerpt({self.outputs()!r})"

    def _shorten(self, grown: list[Output]) -> None:
        """Let go of what is not seen in the end, and then of the middle."""
        cleared, kept = _in_the_end(grown)
        if cleared or self._left_out is None:
            self._head, self._left_out, self._tail = kept, None, []
            self._measure(kept)
            if self._text <= TEXT and self._data <= DATA:
                return
            self._head, kept = _beginning(kept)
        gone, self._tail = _end(kept)
        self._left_out = sum(map(_counted, gone), self._left_out or LeftOut())
        self._measure(self._tail)

    def _measure(self, outputs: list[Output]) -> None:
        self._text = sum(len(output.text) for output in outputs if isinstance(output, StreamOutput))
        self._data = sum(map(_weight, outputs))


def _weight(output: Output) -> int:
    """How much an output counts for, but for the text of streams."""
    match output:
        case DisplayOutput() | ResultOutput():
            data = output.data.values()
            return EACH + sum(len(value) if isinstance(value, str) else len(repr(value)) for value in data)
        case ErrorOutput():
            return EACH + len(output.evalue) + sum(map(len, output.traceback))
    return EACH


def _counted(output: Output) -> LeftOut:
    match output:
        case StreamOutput():
            return LeftOut(len(output.text), output.text.count("\n"))
        case LeftOut():
            return output
        case ClearOutput():
            return LeftOut()
    return LeftOut(outputs=1)


def _join_to_last(outputs: list[Output], output: Output) -> bool:
    """Join a short piece of a stream to what it continues, if it does."""
    last = outputs[-1] if outputs else None
    if not (isinstance(output, StreamOutput) and isinstance(last, StreamOutput) and last.name == output.name):
        return False
    if len(last.text) >= SHORT or len(output.text) >= SHORT:
        return False
    outputs[-1] = StreamOutput(output.name, last.text + output.text)
    return True


def _joined(outputs: Iterable[Output]) -> list[Output]:
    joined: list[Output] = []
    for is_stream, stretch in groupby(
        outputs, lambda output: isinstance(output, StreamOutput) and output.name
    ):
        if is_stream == "stdout" or is_stream == "stderr":
            texts = [output.text for output in stretch if isinstance(output, StreamOutput)]
            joined.append(StreamOutput(is_stream, "".join(texts)))
        else:
            joined.extend(stretch)
    return joined


def _beginning(outputs: list[Output]) -> tuple[list[Output], list[Output]]:
    """Split off as much of the beginning as is kept."""
    text = data = 0
    for at, output in enumerate(outputs):
        size = len(output.text) if isinstance(output, StreamOutput) else 0
        data += _weight(output)
        if data > DATA_END or text + size > TEXT_END:
            if data > DATA_END or not isinstance(output, StreamOutput):
                return outputs[:at], outputs[at:]
            first, second = _cut(output, TEXT_END - text)
            return [*outputs[:at], first], [second, *outputs[at + 1 :]]
        text += size
    return outputs, []


def _end(outputs: list[Output]) -> tuple[list[Output], list[Output]]:
    """Split off as much of the end as is kept."""
    text = data = 0
    for at in range(len(outputs) - 1, -1, -1):
        output = outputs[at]
        size = len(output.text) if isinstance(output, StreamOutput) else 0
        data += _weight(output)
        if data > DATA_END or text + size > TEXT_END:
            if data > DATA_END or not isinstance(output, StreamOutput):
                return outputs[: at + 1], outputs[at + 1 :]
            first, second = _cut(output, size - (TEXT_END - text))
            return [*outputs[:at], first], [second, *outputs[at + 1 :]]
        text += size
    return [], outputs


def _cut(output: StreamOutput, at: int) -> tuple[StreamOutput, StreamOutput]:
    return StreamOutput(output.name, output.text[:at]), StreamOutput(output.name, output.text[at:])


def _in_the_end(outputs: Iterable[Output]) -> tuple[bool, list[Output]]:
    """What of outputs counts in the end, and whether it replaces what came before them."""
    kept: list[Output] = []
    places: dict[str, list[int]] = {}
    cleared = False
    for output in outputs:
        waits = bool(kept) and kept[-1] == ClearOutput(wait=True)
        if output == ClearOutput() or (waits and not isinstance(output, ClearOutput)):
            cleared = True
            kept.clear()
            places.clear()
        if output == ClearOutput() or (waits and output == ClearOutput(wait=True)):
            continue
        if isinstance(output, DisplayOutput) and output.display_id:
            known = places.setdefault(output.display_id, [])
            if output.update and known:
                for at in known:
                    shown = kept[at]
                    assert isinstance(shown, DisplayOutput)
                    kept[at] = replace(shown, data=output.data, metadata=output.metadata)
                continue
            known.append(len(kept))
        kept.append(output)
    return cleared, [
        _settled(output) if isinstance(output, StreamOutput) else output for output in _joined(kept)
    ]


def _settled(output: StreamOutput) -> StreamOutput:
    """Drop the states of a line that were written over by what follows a carriage return."""
    if "\r" not in output.text:
        return output
    first, *lines = output.text.split("\n")
    # What came before this text may stand in its first line.
    start = _last_state(first) if first.count("\r") <= first.endswith("\r") else "\r" + _last_state(first)
    return StreamOutput(output.name, "\n".join([start, *map(_last_state, lines)]))


def _last_state(line: str) -> str:
    if "\r" not in line:
        return line
    state = next((state for state in reversed(line.split("\r")) if state), "")
    return state + "\r" if line.endswith("\r") else state

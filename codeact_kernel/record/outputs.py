"""A block's outputs as the outputs of a cell.

Comes in: the blocks of a transcript with what they put out. Goes out: for each block the outputs as nbformat
4.5 has them, with everything applied that Jupyter applies while it shows them: `clear_output`, updates of
displays by their id (also of a display that another block made), and streams joined. Very long streams are
shortened in the middle, and say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from codeact_kernel.blocks import (
    ClearOutput,
    DisplayOutput,
    ErrorOutput,
    LeftOut,
    Output,
    ResultOutput,
    StreamOutput,
)
from codeact_kernel.controls import coloured
from codeact_kernel.record.clean import clean, clean_text

_JSON_TYPE = re.compile(r"application/(.*\+)?json")
"""The MIME types whose value may be any JSON; nbformat's schema has the same pattern."""

CellOutput = dict[str, Any]

_GAP = "left_out"
"""Marks the place where an excerpt leaves something out, until `cap_streams` has written it there."""


def fold_outputs(blocks: Sequence[Sequence[Output]]) -> list[list[CellOutput]]:
    """Turn the outputs of blocks into those of their cells.

    Updates of a display that its own block makes are applied in their order; those that other blocks make
    come after them, in the order of the blocks, because only the order within a block is known.

    Args:
        blocks: The outputs of each block, in the order in which the blocks were queued.

    Returns:
        The outputs of each cell, in the same order.
    """
    folds = [CellOutputs(outputs) for outputs in blocks]
    shown: dict[str, list[CellOutput]] = {}
    for fold in folds:
        for display_id, displays in fold.displays.items():
            shown.setdefault(display_id, []).extend(displays)
    for fold in folds:
        for update in fold.foreign:
            _update(shown.get(update.display_id or "", ()), update)
    return [fold.outputs for fold in folds]


class CellOutputs:
    """One block's outputs, applied one after the other."""

    def __init__(self, outputs: Iterable[Output]) -> None:
        self.outputs: list[CellOutput] = []
        self.displays: dict[str, list[CellOutput]] = {}
        self.foreign: list[DisplayOutput] = []
        """Updates of displays that this block has not made."""
        self._clear_next = False
        self._stretch: list[str] = []
        for output in outputs:
            self.apply(output)
        self.settle()

    def apply(self, output: Output) -> None:
        """Apply one more.

        Args:
            output: What the block has put out next.
        """
        match output:
            case ClearOutput(wait=True):
                self._clear_next = True
            case ClearOutput():
                self._clear()
            case DisplayOutput(update=True):
                displays = self.displays.get(output.display_id or "")
                if displays:
                    _update(displays, output)
                else:
                    self.foreign.append(output)
            case LeftOut():
                self.settle()
                name = self.outputs[-1].get("name", "stdout") if self.outputs else "stdout"
                self.outputs.append({"output_type": "stream", "name": name, "text": "", _GAP: output})
            case _:
                if self._clear_next:
                    self._clear()
                self._show(output)

    def _clear(self) -> None:
        self.settle()
        self.outputs.clear()
        self.displays.clear()
        self._clear_next = False

    def _show(self, output: Output) -> None:
        if isinstance(output, StreamOutput):
            last = self.outputs[-1] if self.outputs else None
            if last is None or last.get("name") != output.name or _GAP in last:
                self.settle()
                self.outputs.append({"output_type": "stream", "name": output.name, "text": ""})
            self._stretch.append(output.text)
            return
        self.settle()
        made = _made(output)
        self.outputs.append(made)
        if isinstance(output, DisplayOutput) and output.display_id:
            self.displays.setdefault(output.display_id, []).append(made)

    def settle(self) -> None:
        """Write what streams have said so far into `outputs`."""
        if self._stretch:
            self.outputs[-1]["text"] += "".join(self._stretch)
            self._stretch = []


def _made(output: Output) -> CellOutput:
    match output:
        case DisplayOutput():
            return {"output_type": "display_data", **_bundle(output)}
        case ResultOutput():
            count = output.execution_count
            return {"output_type": "execute_result", "execution_count": count, **_bundle(output)}
        case ErrorOutput():
            return {
                "output_type": "error",
                "ename": _text(output.ename),
                "evalue": _text(output.evalue),
                "traceback": [_text(line) for line in output.traceback],
            }
    raise AssertionError(f"{output!r} makes no output of its own")


def _update(displays: Iterable[CellOutput], update: DisplayOutput) -> None:
    for display in displays:
        display.update(_bundle(update))


def _bundle(output: DisplayOutput | ResultOutput) -> dict[str, Any]:
    data = {clean_text(str(kind)): _datum(str(kind), value) for kind, value in output.data.items()}
    # Whether an output is trusted is never for the one to say who made it.
    metadata = {key: value for key, value in output.metadata.items() if key != "trusted"}
    return {"data": data, "metadata": clean(metadata)}


def _datum(kind: str, value: Any) -> Any:
    if _JSON_TYPE.fullmatch(kind):
        return clean(value)
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "".join(value)
    if isinstance(value, str):
        return _text(value) if kind == "text/plain" else clean_text(value)
    return json.dumps(clean(value), ensure_ascii=False)


def _text(text: str) -> str:
    """Text as Jupyter shows it: with colours, and without other sequences, which other programs would obey."""
    return coloured(clean_text(text))


def cap_streams(outputs: list[CellOutput], limit: int) -> tuple[list[CellOutput], LeftOut]:
    """Shorten what a cell holds of streams to its beginning and its end, and clean it.

    Args:
        outputs: The cell's outputs, changed in place.
        limit: Characters of all its streams together that are kept; half of them from the beginning.

    Returns:
        The outputs that have something left, and what was left out, what an excerpt leaves out included: where one
        does, the gap is there.
    """
    streams = [output for output in outputs if output["output_type"] == "stream"]
    total = sum(len(stream["text"]) for stream in streams)
    head, tail = (total, total) if total <= limit else (limit // 2, total - (limit - limit // 2))
    holder: CellOutput | None = None
    gone = LeftOut()
    at = 0
    for stream in streams:
        if _GAP in stream:
            gone += stream.pop(_GAP)
            head, tail = (min(head, at), max(tail, at)) if total > limit else (at, at)
            holder = stream if head == tail else None
        at += len(stream["text"])
    cuts = []
    at = 0
    for stream in streams:
        text, first, second = stream["text"], max(0, head - at), max(0, tail - at)
        gone += LeftOut(len(text[first:second]), text.count("\n", first, second))
        holder = holder or (stream if first < len(text) and first < second else None)
        cuts.append((stream, text[:first], text[second:]))
        at += len(text)
    for stream, beginning, end in cuts:
        note = _note(gone) if stream is holder else ""
        stream["text"] = _text(beginning) + _text(note) + _text(end)
    return _merged(output for output in outputs if output.get("text") != ""), gone


def _merged(outputs: Iterable[CellOutput]) -> list[CellOutput]:
    """Join what a gap and its note have parted."""
    merged: list[CellOutput] = []
    for output in outputs:
        last = merged[-1] if merged else {}
        if "text" in output and last.get("name") == output["name"]:
            last["text"] += output["text"]
        else:
            merged.append(output)
    return merged


def _note(left_out: LeftOut) -> str:
    where = left_out.file or "the journal beside it"
    return f"\n[… {left_out} are left out of this notebook; {where} has them …]\n"

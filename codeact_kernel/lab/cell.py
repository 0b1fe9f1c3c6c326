"""One cell of a run that a notebook shows, and what of it the page does not know yet.

Comes in: source, state, outputs. Goes out: operations, as `docs/design/lab.md` lists them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Literal

from codeact_kernel.blocks import DisplayOutput, Output, StreamOutput
from codeact_kernel.record import CellOutput, CellOutputs

Kind = Literal["code", "prose", "agent"]
Operation = dict[str, Any]
TEXT = 100_000
"""Characters of streams that a cell shows. Ours: some thousand lines; the record holds the rest."""
RICH = 5_000_000
"""Characters of one display that are shown: a large picture."""
_MORE = "\n[what follows is in the record]\n"
LIVE = ("writing", "queued", "asking", "running")
"""The states of a block that has not ended."""


@dataclass(slots=True, eq=False)
class Cell:
    """A cell."""

    id: str
    kind: Kind
    depth: int = 0
    """How many sub-agents it is below the agent."""
    under: str | None = None
    """The cell of the sub-agent whose it is."""
    block: str | None = None
    source: str = ""
    state: str = ""
    """One of `LIVE`, or how the block ended; empty for prose."""
    started: float | None = None
    ended: float | None = None
    note: str = ""
    outputs: CellOutputs = field(default_factory=lambda: CellOutputs(()))
    _characters: int = 0
    """Of streams, so far."""
    _told: _Told | None = None
    """What the page knows; None for nothing."""

    def put_out(self, output: Output) -> bool:
        """Take an output.

        Args:
            output: The output.

        Returns:
            Whether it is shown.
        """
        match output:
            case StreamOutput(name=name, text=text):
                if (room := TEXT - self._characters) < 0:
                    return False
                self._characters += len(text)
                self.outputs.apply(output if len(text) <= room else StreamOutput(name, text[:room] + _MORE))
            case DisplayOutput() if sum(len(str(value)) for value in output.data.values()) > RICH:
                data = {"text/plain": "[too large to be shown here; it is in the record]"}
                self.outputs.apply(DisplayOutput(data, {}, output.display_id, output.update))
            case _:
                self.outputs.apply(output)
        return True

    def show(self, update: DisplayOutput) -> bool:
        """Take an update of a display that another block has made; gives whether this cell shows that."""
        if (update.display_id or "") not in self.outputs.displays:
            return False
        self.outputs.apply(update)
        return True

    def operations(self) -> list[Operation]:
        """What makes the page know this cell as it is now."""
        self.outputs.settle()
        told, outputs = self._told, self.outputs.outputs
        made: list[Operation] = []
        if told is None:
            about = {"kind": self.kind, "depth": self.depth, "under": self.under, "block": self.block}
            made.append({"op": "cell", "id": self.id, "source": self.source, **about})
            told = _Told(self.source)
        elif told.source != self.source:
            at = _common(told.source, self.source)
            made.append(
                {"op": "source", "id": self.id, "at": _units(self.source[:at]), "text": self.source[at:]}
            )
        state = (self.state, self.started, self.ended, self.note, self.block)
        if told.state != state and self.state:
            times = {"started": self.started, "ended": self.ended}
            made.append(
                {
                    "op": "state",
                    "id": self.id,
                    "state": self.state,
                    **times,
                    "note": self.note,
                    "block": self.block,
                }
            )
        made += told.outputs_since(self.id, outputs)
        self._told = _Told(self.source, state, *_marks(outputs))
        return made

    def forget(self) -> None:
        """Take that the page knows nothing."""
        self._told = None


@dataclass(frozen=True, slots=True)
class _Told:
    """What a page knows of a cell."""

    source: str
    state: tuple[Any, ...] = ("", None, None, "", None)
    lengths: tuple[int, ...] = ()
    """Of each output: how long its text is, or 0."""
    outputs: tuple[CellOutput, ...] = ()
    """Copies, whose texts are not looked at."""

    def outputs_since(self, id: str, now: list[CellOutput]) -> list[Operation]:  # noqa: A002
        """What changes the outputs that were told into those that are there now."""
        same = 0
        for before, length, after in zip(self.outputs, self.lengths, now, strict=False):
            if _kind(before) != _kind(after):
                break
            text = after.get("text") if after["output_type"] == "stream" else None
            if text is None and before != after:
                break
            if text is not None and len(text) != length:
                if len(text) < length or same + 1 < len(self.outputs):
                    break
                more = [{**after, "text": text[length:]}, *now[same + 1 :]]
                return [{"op": "outputs", "id": id, "at": same + 1, "outputs": copy.deepcopy(more)}]
            same += 1
        if same == len(now) == len(self.outputs):
            return []
        return [{"op": "outputs", "id": id, "at": same, "outputs": copy.deepcopy(now[same:])}]


def _marks(outputs: list[CellOutput]) -> tuple[tuple[int, ...], tuple[CellOutput, ...]]:
    lengths = tuple(len(o["text"]) if o["output_type"] == "stream" else 0 for o in outputs)
    return lengths, tuple(dict(output) for output in outputs)


def _kind(output: CellOutput) -> tuple[Any, Any]:
    return output["output_type"], output.get("name")


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    if other.startswith(one):
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _units(text: str) -> int:
    """The length of a text as JavaScript counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2

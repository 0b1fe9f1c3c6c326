"""What a person has changed in a record.

Comes in: a notebook of ours, that somebody may have edited. Goes out: in words for a model what was changed, added and
taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from codeact_kernel.blocks import AgentBlock, CodeBlock, Part, Prose
from codeact_kernel.controls import plain
from codeact_kernel.record.cells import mark, parts_of
from codeact_kernel.record.clean import clean_text
from codeact_kernel.record.prose import inert
from codeact_kernel.transcript import RunRecord

BLOCKS = ("run_code", "run_agent")
"""The kinds of cells that are blocks'."""
_SHOWN = 4_000
"""Characters that are told of what an edited cell shows."""
_INTRO = (
    "While this run stood still, its record was edited by hand. Nothing of what follows has run in your kernel, and no "
    "variable is changed by it: what you need of it, run."
)


def own_cells(notebook: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The cells that are ours, edited or not, each with what it says of itself; a copy of one is a person's.

    Args:
        notebook: The notebook.
    """
    return ((cell, about) for cell, about in _cells(notebook) if about)


def edits(notebook: Mapping[str, Any], runs: Iterable[RunRecord] = ()) -> str:
    """Tell what was changed, added and taken out.

    Args:
        notebook: The notebook.
        runs: As the notebook tells of them; its replies are whole, whatever became of their cells.

    Returns:
        A text for the model; empty where nothing was.
    """
    told, after = [], "At the top"
    for cell, about in _cells(notebook):
        source = str(cell["source"])
        if about:
            kind, name = about.get("kind"), about.get("id")
            if kind in BLOCKS and name:
                after = f"After block {name}"
            elif "turn" in about:
                after = f"In turn {about['turn']}"
            if about.get("mark", mark(source)) != mark(source):
                what = f"Block {name}" if name else f"A text of turn {about.get('turn', '?')}"
                told.append(f"{what} reads now:\n{_shown(cell)}")
        elif source.strip():
            told.append(f"{after}, a {cell['cell_type']} cell was added:\n{_shown(cell)}")
    told += _taken_out(notebook, runs)
    return "\n\n".join([_INTRO, *told]) if told else ""


def matched(parts: Sequence[Part], abouts: Sequence[Mapping[str, Any]]) -> list[int | None]:
    """Which cell is which part's.

    Args:
        parts: Parts of a reply, all of them prose, or all of them blocks.
        abouts: What their cells that are left say of themselves, in order.

    Returns:
        For each part the place of its cell, where that is left.
    """
    if len(parts) == len(abouts):
        return list(range(len(parts)))
    left, places = dict(enumerate(abouts)), []
    for part in parts:
        place = next((place for place, about in left.items() if _is_of(part, about)), None)
        left.pop(-1 if place is None else place, None)
        places.append(place)
    return places


def _is_of(part: Part, about: Mapping[str, Any]) -> bool:
    match part:
        case CodeBlock():
            return bool(about.get("mark") == mark(clean_text(part.code)))
        case AgentBlock():
            return bool(about.get("attributes", {}).get("task") == clean_text(part.task))
        case Prose():
            return bool(about.get("mark") == mark(clean_text(inert(part.text.strip()))))
    return False


def _taken_out(notebook: Mapping[str, Any], runs: Iterable[RunRecord]) -> Iterator[str]:
    cells: dict[tuple[str, int, bool], list[Mapping[str, Any]]] = {}
    """By run and turn those of blocks, and those of texts."""
    for _, about in own_cells(notebook):
        if about.get("kind") in (*BLOCKS, "prose") and not about.get("attributes", {}).get("by"):
            key = str(about.get("run")), int(about.get("turn", 0)), about["kind"] in BLOCKS
            cells.setdefault(key, []).append(about)
    for run in runs:
        for turn in run.turns:
            parts = parts_of(run, turn)
            blocks = [part for part in parts if isinstance(part, CodeBlock | AgentBlock)]
            texts = [part for part in parts if isinstance(part, Prose) and part.text.strip()]
            for those, is_block in ((texts, False), (blocks, True)):
                there = cells.get((clean_text(run.start.run_id), turn.number, is_block), [])
                for part, place in zip(those, matched(those, there), strict=True):
                    if place is None:
                        yield _gone(part, turn.number)


def _gone(part: Part, turn: int) -> str:
    match part:
        case CodeBlock():
            what, text = f"Block {part.id}" if part.id else "A block", part.code
        case AgentBlock():
            what, text = f"Sub-agent {part.id}" if part.id else "A sub-agent", part.task
        case _:
            return f"A text of turn {turn} was taken out:\n{str(getattr(part, 'text', '')).strip()[:_SHOWN]}"
    return f"{what} of turn {turn} was taken out; what it did stays done:\n{text[:_SHOWN]}"


def _cells(notebook: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """All cells, each with what it says of itself: nothing, where it is a person's."""
    # Jupyter gives a copy, and both parts of a cell that was split, the same metadata: the first one counts.
    seen = set()
    for cell in notebook["cells"]:
        about = cell["metadata"].get("codeact")
        about = about if isinstance(about, Mapping) else {}
        if about.get("kind") in BLOCKS and "id" in about:
            name = (about.get("run"), about["id"])
            about = {} if name in seen else about
            seen.add(name)
        yield cell, about


def _shown(cell: Mapping[str, Any]) -> str:
    """A cell's source, and below it what it shows."""
    lines = [str(cell["source"])]
    for output in cell.get("outputs", ()):
        match output.get("output_type"):
            case "stream":
                lines.append(f"[it shows]\n{plain(str(output['text']))[:_SHOWN]}")
            case "error":
                lines.append(
                    f"[it fails] {plain(str(output['ename']))}: {plain(str(output['evalue']))[:_SHOWN]}"
                )
            case _:
                text = str(output.get("data", {}).get("text/plain", "a display"))
                lines.append(f"[it shows]\n{plain(text)[:_SHOWN]}")
    return "\n".join(lines)

"""What a person has changed in a record.

Comes in: a notebook of ours, that somebody may have edited. Goes out: what was changed and added, in words for a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from codeact_kernel.controls import plain

_SHOWN = 4_000
"""Characters that are told of what an edited cell shows."""
_INTRO = (
    "While this run stood still, its record was edited by hand. Nothing of what follows has run in your kernel, and no "
    "variable is changed by it: what you need of it, run."
)


def mark(source: str) -> str:
    """What tells whether a cell's source is the one that was written."""
    return sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def own_cells(notebook: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The cells that are ours, edited or not, each with what it says of itself; a copy of one is a person's.

    Args:
        notebook: The notebook.
    """
    return ((cell, about) for cell, about in _cells(notebook) if about)


def edits(notebook: Mapping[str, Any]) -> str:
    """Tell what was changed and added.

    Args:
        notebook: The notebook.

    Returns:
        A text for the model; empty where nothing was.
    """
    told, after = [], "At the top"
    for cell, about in _cells(notebook):
        source = str(cell["source"])
        if about:
            kind, name = about.get("kind"), about.get("id")
            if kind in ("run_code", "run_agent") and name:
                after = f"After block {name}"
            elif "turn" in about:
                after = f"In turn {about['turn']}"
            if about.get("mark", mark(source)) != mark(source):
                what = f"Block {name}" if name else f"A text of turn {about.get('turn', '?')}"
                told.append(f"{what} reads now:\n{_shown(cell)}")
        elif source.strip():
            told.append(f"{after}, a {cell['cell_type']} cell was added:\n{_shown(cell)}")
    return "\n\n".join([_INTRO, *told]) if told else ""


def _cells(notebook: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """All cells, each with what it says of itself: nothing, where it is a person's."""
    # Jupyter gives a copy, and both parts of a cell that was split, the same metadata: the first one counts.
    seen = set()
    for cell in notebook["cells"]:
        about = cell["metadata"].get("codeact")
        about = about if isinstance(about, Mapping) else {}
        if about.get("kind") in ("run_code", "run_agent") and "id" in about:
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

"""A run where no page of ours shows it: as HTML for VS Code, nbviewer and a saved file, and as text.

Comes in: the cells of a run. Goes out: a MIME bundle, bounded in size: of a long run the newest cells. Nothing in it
runs.
"""

from __future__ import annotations

import html
from typing import Any

from markdown_it import MarkdownIt

from codeact_kernel.blocks import format_duration
from codeact_kernel.controls import plain
from codeact_kernel.lab.cell import LIVE, Cell
from codeact_kernel.lab.cells import Cells
from codeact_kernel.record import CellOutput

BAR = "application/vnd.codeact.run+json"
VERSION = 1
SIZE = 100_000
"""Characters of the HTML that cells may take. Ours: it is sent anew each time that something changes."""
OUTPUT = 4_000
"""Characters of one text output, its end: the cell that failed or printed a table."""
PICTURE = 60_000
"""Characters of a picture that is shown while the run goes on; all of them are at the end."""
_STATES = {
    "working": "works",
    "asking": "asks",
    "answered": "answered",
    "stopped": "stopped",
    "limit": "stopped at a limit",
    "failed": "failed",
}
_markdown = MarkdownIt("commonmark", {"html": False}).enable("table")


def bundle(cells: Cells, *, whole: bool = False) -> dict[str, Any]:
    """A run as one output.

    Args:
        cells: The run.
        whole: Whether large pictures are in it, too.
    """
    about = {"v": VERSION, "run": cells.run, "bar": cells.bar, "questions": list(cells.questions.values())}
    return {BAR: about, "text/html": as_html(cells, whole=whole), "text/plain": as_text(cells)}


def headline(cells: Cells) -> str:
    """What the bar says, in one line."""
    bar = cells.bar
    ended = cells.wall() if bar["ended"] is None else bar["ended"]
    parts = [
        f"agent {_STATES[bar['state']]}",
        bar["model"],
        format_duration(max(0.0, ended - bar["started"])),
        f"{bar['turns']} turns",
        f"{bar['tokens']:,} tokens",
        *([f"${bar['cost']:.4f}"] if bar["cost"] else []),
    ]
    return " · ".join(filter(None, parts))


def as_text(cells: Cells) -> str:
    """A run as text: what is said and done, and the answer last.

    Args:
        cells: The run.
    """
    parts = [text for cell in cells.all if (text := cell_text(cell))]
    said = "\n\n".join(parts)
    if len(said) > SIZE:
        said = "…" + said[-SIZE:]
    why = plain(cells.bar["text"]) if cells.bar["ended"] is not None else ""
    return "\n\n".join(filter(None, [said, why, f"[{headline(cells)}]"]))


def cell_text(cell: Cell) -> str:
    """A cell as text.

    Args:
        cell: The cell.
    """
    indent = "    " * cell.depth
    if cell.kind != "code":
        return "\n".join(indent + line for line in plain(cell.source).splitlines())
    cell.outputs.settle()
    code = [
        f">>> {line}" if at == 0 else f"... {line}" for at, line in enumerate(plain(cell.source).splitlines())
    ]
    shown = [line for output in cell.outputs.outputs for line in _output_text(output).splitlines()]
    ended = (
        [] if cell.state in ("", "ok") else [f"[{cell.block or 'block'}: {cell.state}] {cell.note}".rstrip()]
    )
    return "\n".join(indent + line for line in (*code, *shown, *ended))


def _output_text(output: CellOutput) -> str:
    match output["output_type"]:
        case "stream":
            text = output["text"]
        case "error":
            text = "\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}"
        case _:
            text = str(output["data"].get("text/plain", ""))
    text = plain(text)
    return text if len(text) <= OUTPUT else "…" + text[-OUTPUT:]


def as_html(cells: Cells, *, whole: bool = False) -> str:
    """A run as HTML.

    Args:
        cells: The run.
        whole: As in `bundle`.
    """
    kept: list[str] = []
    size = left_out = 0
    for cell in reversed(cells.all):
        made = _cell_html(cell, whole)
        if (size := size + len(made)) > SIZE and not whole and kept:
            left_out += 1
        elif not left_out:
            kept.append(made)
    hidden = [f"<p><i>{left_out} more above; the record has them.</i></p>"] if left_out else []
    head = f"<p><b>{html.escape(headline(cells))}</b> {html.escape(cells.bar['text'])}</p>"
    asked = "".join(
        f"<p><b>{html.escape(about['title'])}</b> {html.escape(about['why'])}</p>"
        for about in cells.questions.values()
    )
    return f'<div class="codeact-run">{head}{asked}{"".join([*hidden, *reversed(kept)])}</div>'


def _cell_html(cell: Cell, whole: bool) -> str:
    style = f' style="margin-left:{2 * cell.depth}em"' if cell.depth else ""
    if cell.kind == "agent":
        return f"<div{style}><b>{html.escape(cell.source)}</b></div>"
    if cell.kind == "prose":
        return f"<div{style}>{_markdown.render(cell.source)}</div>"
    cell.outputs.settle()
    outputs = "".join(_output_html(output, whole) for output in cell.outputs.outputs)
    code = f"<pre><code>{html.escape(plain(cell.source))}</code></pre>"
    if not cell.state:
        return f"<div{style}>{code}</div>"
    took = (
        ""
        if cell.started is None or cell.ended is None
        else f" · {format_duration(cell.ended - cell.started)}"
    )
    title = f"{html.escape(cell.block or 'block')} · {cell.state}{took} {html.escape(cell.note)}"
    is_open = " open" if cell.state in LIVE or cell.state not in ("ok", "skipped") else ""
    return f"<details{is_open}{style}><summary>{title}</summary>{code}{outputs}</details>"


def _output_html(output: CellOutput, whole: bool) -> str:
    data = output.get("data", {})
    for kind in ("image/png", "image/jpeg"):
        if isinstance(picture := data.get(kind), str) and (whole or len(picture) <= PICTURE):
            return f'<img src="data:{kind};base64,{html.escape(picture.strip())}" alt="a picture that the block made">'
    # HTML of a block is a stranger's: its text is shown, as the record does it.
    return f"<pre>{html.escape(_output_text(output))}</pre>"

"""`codeact diff`: two recorded runs side by side.

Comes in: two records. Goes out: what each came to, and turn by turn what was said, what came of its blocks, and what it
cost; an exit code that says whether they differ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codeact_kernel.cli.streams import clean, is_terminal

if TYPE_CHECKING:
    from rich.table import Table

    from codeact_kernel.agent import RecordedRun
    from codeact_kernel.transcript import Turn

First = Annotated[
    Path, typer.Argument(metavar="A", help="A run's folder, its journal.jsonl or its run.ipynb.")
]
Second = Annotated[Path, typer.Argument(metavar="B", help="Another one.")]
WIDTH = 160
"""Columns where the output goes to a file or a pipe."""
_LINES, _LONGEST = 6, 600
"""Of a reply that differs so much is shown."""


def diff(a: First, b: Second) -> int:
    """Show two recorded runs side by side: what they came to, and turn by turn what was said and done.

    The exit code is 0 where all replies are the same and all blocks came out the same but for what is volatile (times,
    addresses and the like), else 1. For single cells, nbdime's nbdiff shows more.
    """
    from codeact_kernel.agent import RecordedRun, compare
    from codeact_kernel.cli.console import TerminalConsole

    one, other = RecordedRun.load(a), RecordedRun.load(b)
    odd = {block.turn for block in compare(one, other) if block.verdict not in ("same", "volatile")}
    width = None if is_terminal(sys.stdout) else WIDTH
    console = TerminalConsole(width=width, highlight=False, markup=False, emoji=False)
    table = _table(str(a), str(b))
    for name, left, right in _figures(one, other):
        table.add_row(name, clean(left), clean(right))
    same = True
    for first, second in zip_longest(one.turns, other.turns):
        turn = first or second
        is_same = bool(first and second) and _said(first) == _said(second) and turn.number not in odd
        same = same and is_same
        table.add_section()
        left, right = _told(first, is_same), _told(second, is_same)
        table.add_row(f"{'=' if is_same else '≠'} turn {turn.number}", left, right)
    console.print(table)
    return 0 if same and (one.stop, one.answer) == (other.stop, other.answer) else 1


def _table(a: str, b: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, expand=True)
    table.add_column("", no_wrap=True)
    table.add_column(clean(a), ratio=1, overflow="fold")
    table.add_column(clean(b), ratio=1, overflow="fold")
    return table


def _figures(one: RecordedRun, other: RecordedRun) -> Iterator[tuple[str, str, str]]:
    """What the two came to, name by name."""
    yield "task", _short(one.task), _short(other.task)
    yield "model", one.about.model, other.about.model
    left, right = one.figures, other.figures
    for name, figure in left.items():
        yield name, figure, right[name]
    yield "answer", _short(one.answer or ""), _short(other.answer or "")


def _said(turn: Turn | None) -> str:
    return turn.reply.text if turn and turn.reply else ""


def _told(turn: Turn | None, is_same: bool) -> str:
    """A turn: what was said, where it differs, what came of its blocks, and what it took."""
    if turn is None:
        return "—"
    ends = ", ".join(f"{b.id} {b.result.status if b.result else 'running'}" for b in turn.blocks)
    lines = [] if is_same else [_short(_said(turn))]
    lines.append(ends or "no block")
    if turn.reply:
        used = turn.reply.usage
        cost = "" if not used.cost else f", ${used.cost:.4f}"
        lines.append(f"{used.input_tokens:,} tokens in, {used.output_tokens:,} out{cost}")
    return clean("\n".join(lines))


def _short(text: str) -> str:
    lines = text[:_LONGEST].strip().splitlines()
    return "\n".join([*lines[:_LINES], *(["…"] if len(lines) > _LINES or len(text) > _LONGEST else [])])

"""`codeact stats`: the runs of a folder in a table, and what they came to together.

Comes in: a folder of runs. Goes out: a line for each run with bars, and a line for each model, on stdout; or a page.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codeact_kernel.cli.streams import clean, is_terminal, written
from codeact_kernel.errors import ConfigError

if TYPE_CHECKING:
    from codeact_kernel.agent import KnownRun

Place = Annotated[Path, typer.Argument(metavar="DIR", help="A workspace, or a folder of runs' folders.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="PATH", help="Write a page of HTML with pictures instead."),
]
_HEADS = ("began", "state", "turns", "tokens", "cost", "time", "model", "task")
WIDTH = 160
"""Columns where the output goes to a file or a pipe."""
_BAR, _EIGHTHS = 12, " ▏▎▍▌▋▊▉"
"""Columns of a bar, and what fills the last of them in part."""


def stats(folder: Place = Path(), output: Output = None) -> int:
    """Show the runs of a folder, in the order in which they began: how they ended, turns, tokens, cost, time.

    Below stands for each model how many of its runs were answered, and what they took in the median.
    """
    from codeact_kernel.agent import runs_in

    place = folder.expanduser()
    runs = runs_in(place / ".codeact" / "runs") or runs_in(place)
    if not runs:
        raise ConfigError(f"there are no runs in {folder}")
    runs.sort(key=lambda run: _number(run.summary.get("started")))
    if output is not None:
        written(_page(place.resolve().name, runs), output)
        return 0
    _show(runs)
    return 0


def _show(runs: Sequence[KnownRun]) -> None:
    from rich import box
    from rich.table import Table

    from codeact_kernel.cli.console import TerminalConsole

    width = None if is_terminal(sys.stdout) else WIDTH
    console = TerminalConsole(width=width, highlight=False, markup=False, emoji=False)
    table = Table(box=box.SIMPLE)
    for head in _HEADS:
        table.add_column(head, no_wrap=True, overflow="ellipsis")
    for row in _rows(runs):
        table.add_row(*row)
    console.print(table)
    models: dict[str, list[KnownRun]] = defaultdict(list)
    for run in runs:
        models[str(run.summary.get("model", "?"))].append(run)
    for model, its in sorted(models.items()):
        console.print(_summed(model, its))


def _page(place: str, runs: Sequence[KnownRun]) -> str:
    from codeact_kernel.cli.statspage import Told, stats_page

    return stats_page(
        clean(place),
        _HEADS,
        [
            Told(
                clean(f"{run.folder.name}, {run.state}"),
                clean(run.state),
                clean(str(run.summary.get("model", "?"))),
                _turns(run),
                _tokens(run),
                None if run.summary.get("cost") is None else _number(run.summary["cost"]),
                row,
            )
            for run, row in zip(runs, _rows(runs, bars=False), strict=True)
        ],
    )


def _rows(runs: Sequence[KnownRun], *, bars: bool = True) -> Iterator[list[str]]:
    from codeact_kernel.blocks import format_duration

    turns, tokens = [_turns(run) for run in runs], [_tokens(run) for run in runs]
    for run, turn, token in zip(runs, turns, tokens, strict=True):
        about = run.summary
        cost = about.get("cost")
        shown = (
            time.strftime("%Y-%m-%d %H:%M", time.localtime(_number(about.get("started")))),
            run.state,
            f"{turn:>5,.0f} {_bar(turn, max(turns))}" if bars else f"{turn:,.0f}",
            f"{token:>9,.0f} {_bar(token, max(tokens))}" if bars else f"{token:,.0f}",
            "" if cost is None else f"${_number(cost):.2f}",
            format_duration(_number(about.get("seconds"))),
            str(about.get("model", "?")),
            " ".join(str(about.get("task", "")).split()),
        )
        yield [clean(text) for text in shown]


def _summed(model: str, runs: Sequence[KnownRun]) -> str:
    answered = sum(run.state == "answered" for run in runs)
    cost = sum(_number(run.summary.get("cost")) for run in runs)
    turns, tokens = median(map(_turns, runs)), median(map(_tokens, runs))
    return clean(
        f"{model}  {_bar(answered, len(runs))} {answered} of {len(runs)} answered · "
        f"in the median {turns:,.0f} turns, {tokens:,.0f} tokens · ${cost:.2f} in all"
    )


def _bar(value: float, most: float) -> str:
    eighths = round(value / most * _BAR * 8) if most > 0 else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(_BAR)


def _turns(run: KnownRun) -> float:
    return _number(run.summary.get("turns"))


def _tokens(run: KnownRun) -> float:
    tokens = run.summary.get("tokens")
    return sum(_number(tokens.get(name)) for name in ("input", "output")) if isinstance(tokens, dict) else 0.0


def _number(value: Any) -> float:
    """A figure of a summary, which anybody may have written."""
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e12 else 0.0

"""The runs of a folder as a page: how they ended, and their turns, tokens and costs as pictures.

Comes in: what is known of runs. Goes out: one page of HTML, with pictures in it, that needs nothing else.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

COLOURS = {
    "answered": "#3987cf",
    "limit": "#c98a1b",
    "failed": "#d9574a",
    "crashed": "#9a6fc0",
    "cancelled": "#888888",
    "running": "#4aa564",
}
"""By how a run ended; they can be read on a light and on a dark page."""
_OTHER = "#888888"
_WIDE, _HIGH, _LEFT, _WIDEST = 840.0, 110.0, 70.0, 24.0


@dataclass(frozen=True, slots=True)
class Told:
    """A run, as the page tells of it."""

    name: str
    """What is shown where somebody points at it."""
    state: str
    model: str
    turns: float
    tokens: float
    cost: float | None
    """In US dollars; None where it is not known."""
    row: Sequence[str]
    """Its row of the table."""


def stats_page(place: str, heads: Sequence[str], runs: Sequence[Told]) -> str:
    """The page.

    Args:
        place: Where the runs are.
        heads: Names the columns of the table.
        runs: The runs, in the order in which they began.
    """
    from codeact_kernel.record import whole_page

    parts = [f"<h1>Runs in {html.escape(place)}</h1>", _legend(runs), "<h2>How they ended</h2>"]
    models = sorted({run.model for run in runs})
    parts.append(
        _table(
            ("model", "", "answered", "turns", "tokens", "cost"), map(_summed, models, [runs] * len(models))
        )
    )
    pictures = {
        "Turns": [run.turns for run in runs],
        "Tokens": [run.tokens for run in runs],
        "Cost in US dollars": [run.cost or 0.0 for run in runs],
    }
    for title, values in pictures.items():
        if any(values):
            parts += [f"<h2>{title}</h2>", _bars(runs, values)]
    parts += [
        "<h2>All of them</h2>",
        _table(heads, ([html.escape(text) for text in run.row] for run in runs)),
    ]
    return whole_page(f"Runs in {place}", "\n".join(parts))


def _summed(model: str, runs: Sequence[Told]) -> list[str]:
    its = [run for run in runs if run.model == model]
    answered = sum(run.state == "answered" for run in its)
    cost = sum(run.cost or 0.0 for run in its)
    figures = f"{median(run.turns for run in its):,.0f}", f"{median(run.tokens for run in its):,.0f}"
    return [html.escape(model), _shares(its), f"{answered} of {len(its)}", *figures, f"${cost:.2f} in all"]


def _shares(runs: Sequence[Told]) -> str:
    """How many of the runs have ended how, as a bar of parts."""
    counts, at, parts = Counter(run.state for run in runs), 0.0, []
    for state in sorted(counts, key=_rank):
        wide = 240.0 * counts[state] / len(runs)
        parts.append(_rect(at, 0, wide, 12, state, f"{counts[state]} {state}"))
        at += wide
    return f'<svg width="240" height="12" role="img">{"".join(parts)}</svg>'


def _bars(runs: Sequence[Told], values: Sequence[float]) -> str:
    """A bar for each run, in the order in which they began."""
    most, step = max(values), min(_WIDEST, _WIDE / len(runs))
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = 8 + _HIGH * (1 - share)
        said = f"{most * share:,.2f}" if most < 10 else f"{most * share:,.0f}"
        parts.append(f'<path d="M{_LEFT} {y:.1f}h{_WIDE}" stroke="#8886"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{said}</text>')
    for at, (run, value) in enumerate(zip(runs, values, strict=True)):
        tall = _HIGH * value / most
        wide = max(0.5, step - (1 if step > 3 else 0))
        parts.append(
            _rect(_LEFT + step * at, 8 + _HIGH - tall, wide, tall, run.state, f"{run.name}: {value:,.4g}")
        )
    return (
        f'<svg viewBox="0 0 {_LEFT + _WIDE} {_HIGH + 16}" width="100%" role="img" font-size="11" fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )


def _rect(x: float, y: float, wide: float, tall: float, state: str, said: str) -> str:
    colour = COLOURS.get(state, _OTHER)
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{tall:.2f}" fill="{colour}">'
        f"<title>{html.escape(said)}</title></rect>"
    )


def _legend(runs: Sequence[Told]) -> str:
    states = sorted({run.state for run in runs}, key=_rank)
    parts = (
        f'<span style="color:{COLOURS.get(state, _OTHER)}">■</span> {html.escape(state)}' for state in states
    )
    return f"<p>{' &nbsp; '.join(parts)}</p>"


def _rank(state: str) -> tuple[int, str]:
    known = list(COLOURS)
    return known.index(state) if state in known else len(known), state


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    return f"<table>{''.join(_rows(heads, rows))}</table>"


def _rows(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield f"<tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"

"""When which block ran, as a picture.

Comes in: stretches of time, in any order. Goes out: an SVG. Few blocks have a row each; of many there is how many ran
at once. What is kept does not grow with their number, and is the same in whatever order they come.

The picture stands in a page whose background is not known, light or dark: so it has none of its own, and colours that
can be read on both.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from codeact_kernel.blocks import format_duration

Kind = Literal["model", "ok", "failed", "agent"]

ROWS, _BARS = 40, 200
"""Blocks that have a row each, and bars that are drawn one by one; with more there are sums."""
_COLUMNS = 160
_COLOURS: dict[Kind, str] = {"model": "#888", "ok": "#3987cf", "failed": "#d9574a", "agent": "#9a6fc0"}
_BLOCKS: tuple[Kind, ...] = ("ok", "failed", "agent")
_NAMES: dict[Kind, str] = {
    "model": "the model writes",
    "ok": "a block runs",
    "failed": "one that failed",
    "agent": "a sub-agent",
}
_LEFT, _WIDE, _ROW, _TOP, _HIGH = 130, 600, 16, 22, 120
_LABEL = 18
"""Characters of a block's name."""
_LATEST = 10**15
"""Milliseconds: a stranger's record may say anything."""


@dataclass(frozen=True, slots=True, order=True)
class Bar:
    """A stretch of time, in milliseconds since the beginning."""

    first: int
    last: int
    kind: Kind
    label: str


@dataclass(slots=True)
class Timeline:
    """Stretches of time, as many as there are.

    Args:
        began: Where the picture begins, in seconds since the epoch.
    """

    began: float
    until: int = 1
    rows: int = 0
    bars: list[Bar] | None = field(default_factory=list)
    """None once there are too many."""
    width: int = 1
    """Milliseconds of a column."""
    busy: Counter[tuple[Kind, int]] = field(default_factory=Counter)
    """By kind and column: how many milliseconds of it, all blocks together."""

    def copy(self) -> Timeline:
        """One that can go on by itself."""
        bars = None if self.bars is None else list(self.bars)
        return Timeline(self.began, self.until, self.rows, bars, self.width, self.busy.copy())

    def add(self, kind: Kind, started: float, ended: float, label: str = "") -> None:
        """Take a stretch of time.

        Args:
            kind: What went on.
            started: When it began, in seconds since the epoch.
            ended: When it ended.
            label: The block's name.
        """
        first = self._at(started)
        last = max(first, self._at(ended))
        self.until = max(self.until, last)
        self.rows += kind != "model"
        if self.bars is not None:
            self.bars.append(Bar(first, last, kind, label))
            if self.rows > ROWS or len(self.bars) > _BARS:
                self.bars = None
        while last >= self.width * _COLUMNS:
            self.width *= 2
            halves, self.busy = self.busy, Counter()
            for (of, column), spent in halves.items():
                self.busy[of, column // 2] += spent
        for column in range(first // self.width, last // self.width + 1):
            begins = column * self.width
            self.busy[kind, column] += min(last, begins + self.width) - max(first, begins)

    def svg(self) -> str:
        """The picture."""
        high, drawn = self._sums() if self.bars is None else self._rows(self.bars)
        foot = _TOP + high
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDE + 10} {foot + 20}"'
            f' font-family="sans-serif" font-size="11" fill="#808080">{_legend()}{self._axis(foot)}{drawn}</svg>'
        )

    def _at(self, time: float) -> int:
        since = (time - self.began) * 1000
        return round(min(max(since, 0.0), _LATEST)) if math.isfinite(since) else 0

    def _rows(self, bars: list[Bar]) -> tuple[int, str]:
        """A row for the model, and one for each block."""
        drawn, row = [_text(0, _TOP + 12, "the model")], 0
        for bar in sorted(bars):
            at = 0 if bar.kind == "model" else (row := row + 1)
            top = _TOP + at * _ROW
            left, right = (_LEFT + _WIDE * at / self.until for at in (bar.first, bar.last))
            drawn.append(
                f'<rect x="{left:.1f}" y="{top + 3}" width="{max(1.5, right - left):.1f}" height="{_ROW - 5}"'
                f' fill="{_COLOURS[bar.kind]}"/>'
            )
            if at:
                drawn.append(_text(0, top + 12, bar.label))
        return (row + 1) * _ROW, "".join(drawn)

    def _sums(self) -> tuple[int, str]:
        """How much of the time the model wrote, and how many blocks ran at once."""
        columns = range(self.until // self.width + 1)
        spent = {kind: [self.busy[kind, column] / self.width for column in columns] for kind in _COLOURS}
        model = self._area(spent["model"], _TOP + _ROW - 2, _ROW - 4, "model")
        stacked: list[tuple[Kind, list[float]]] = []
        below = [0.0 for _ in columns]
        for kind in _BLOCKS:
            below = [low + more for low, more in zip(below, spent[kind], strict=True)]
            stacked.append((kind, below))
        most = max(1, math.ceil(max(below)))
        foot, scale = _TOP + _ROW + _HIGH, (_HIGH - 6) / most
        areas = "".join(self._area(above, foot, scale, kind) for kind, above in reversed(stacked))
        labels = _text(0, _TOP + 12, "the model") + _text(0, foot - _HIGH + 14, f"{most} at once")
        return _ROW + _HIGH, labels + model + areas + _text(0, foot - 2, f"{self.rows:,} in all")

    def _area(self, above: list[float], foot: int, scale: float, kind: Kind) -> str:
        """What is below a line of steps; what is drawn after it covers its part of that."""
        wide = _WIDE * self.width / self.until
        steps = "".join(
            f"V{foot - value * scale:.1f}H{_LEFT + min(_WIDE, at * wide):.1f}"
            for at, value in enumerate(above, 1)
        )
        return f'<path d="M{_LEFT} {foot}{steps}V{foot}z" fill="{_COLOURS[kind]}"/>'

    def _axis(self, foot: int) -> str:
        marks = []
        for part in range(5):
            x = _LEFT + _WIDE * part / 4
            marks.append(f'<path d="M{x:.1f} {_TOP}V{foot}" stroke="#888" stroke-opacity=".35"/>')
            said = format_duration(self.until * part / 4000)
            marks.append(_text(x, foot + 14, said, "end" if part == 4 else "middle" if part else "start"))
        return "".join(marks)


def _legend() -> str:
    return "".join(
        f'<rect x="{_LEFT + 130 * at}" y="4" width="10" height="10" fill="{_COLOURS[kind]}"/>'
        + _text(_LEFT + 130 * at + 15, 13, name)
        for at, (kind, name) in enumerate(_NAMES.items())
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    """A text; what a name may hold that no XML may is replaced."""
    text = text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"
    shown = html.escape("".join(char if char.isprintable() else "\ufffd" for char in text))
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{shown}</text>'

"""`self.budget`: what the run may use, has used, and has left.

Comes in: what the host tells. Goes out: a dict that prints well.
"""

from __future__ import annotations

from typing import Any


class Budget(dict[str, Any]):
    """What the run, with all its agents, may use ("limits"), has used ("used") and has left ("left").

    Each is a dict by "tokens", "cost" (US dollars), "seconds", "turns" and "agents"; what has no limit is not in
    "limits" and "left". "tokens" has those of "input", "cached" among them, and "output". Where "cost_known" is False,
    "used" has no cost.
    """

    __module__ = "__main__"

    def __init__(self, told: dict[str, Any]) -> None:
        self._text = str(told.pop("text", ""))
        super().__init__(told)

    def __repr__(self) -> str:
        return self._text

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

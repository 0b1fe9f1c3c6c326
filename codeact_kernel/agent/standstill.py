"""Notices that a run goes round in circles.

Comes in: each turn: what the model did, and what it read then. Goes out: a word to the model, and the end of the run
where that changes nothing. A turn brings something new unless the same was done with the same outcome before, or
nothing was done at all. What takes its time is no circle: it waits.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from codeact_kernel.blocks import AgentBlock, CodeBlock, Prose
from codeact_kernel.errors import LimitReached
from codeact_kernel.events import Reply, Report

TOLD_AFTER = 3
"""Turns in a row that bring nothing new, after which the model is told. Twice the same is a second try, which may help
where the world is flaky."""
STOPPED_AFTER = 8
"""And after which the run is stopped. What a model has not changed in five turns after it was told, it will not."""
REMEMBERED = 64
"""Turns that are remembered: circles are shorter."""
WAITS = {False: 2.0, True: 60.0}
"""Seconds from which a turn is one that waits: of one that went well, and of one with an error. Who polls sleeps for
some seconds between; the same error is a circle also where it takes half a minute of tests to come."""
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_ADVICE = (
    'Try another way. To wait for something, wait in one block, or call self.wake_in("10m", "what for"). If you '
    "cannot go on, say why."
)


class Standstill:
    """Looks at the turns of a run."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin a run."""
        self._seen: OrderedDict[Any, None] = OrderedDict()
        self._nothing_new = 0

    def look(self, reply: Reply, reports: Sequence[Report], seconds: float) -> list[Report]:
        """Look at a turn at whose end nothing runs.

        Args:
            reply: What the model wrote.
            reports: What it reads now.
            seconds: How long that took.

        Returns:
            What it is told; mostly nothing.

        Raises:
            LimitReached: If it was told, and nothing has changed.
        """
        failed = any(report.kind == "fault" or _status(report) != "ok" for report in reports)
        acted = any(not isinstance(part, Prose) for part in reply.parts)
        if acted and seconds >= WAITS[failed]:
            return []
        is_new = self._is_new((_did(reply), _read(reports, failed)))
        asked = any(
            report.kind == "note" and dict(report.attrs).get("from") != "runtime" for report in reports
        )
        if (acted and is_new) or asked:
            self._nothing_new = 0
            return []
        self._nothing_new += 1
        if self._nothing_new >= STOPPED_AFTER:
            raise LimitReached(
                f"{STOPPED_AFTER} turns in a row brought nothing new: {'the same error' if failed else 'the same'} "
                "again and again",
                limit="standstill",
                allowed=STOPPED_AFTER,
            )
        if self._nothing_new != TOLD_AFTER:
            return []
        what = "the same code with the same outcome" if acted else "nothing was done"
        left = STOPPED_AFTER - TOLD_AFTER
        text = (
            f"The last {TOLD_AFTER} turns brought nothing new: {what}. {_ADVICE} After {left} more such turns the run "
            "is stopped."
        )
        return [Report("reminder", text)]

    def _is_new(self, turn: Any) -> bool:
        if turn in self._seen:
            self._seen.move_to_end(turn)
            return False
        self._seen[turn] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return True


def _did(reply: Reply) -> Any:
    codes = [part.code for part in reply.parts if isinstance(part, CodeBlock)]
    tasks = [part.task for part in reply.parts if isinstance(part, AgentBlock)]
    return (*codes, *tasks) or reply.text


def _read(reports: Sequence[Report], failed: bool) -> Any:
    """What was read, without what differs from turn to turn in any case: ids, times, an error's addresses."""
    told = [report for report in reports if report.kind != "reminder"]
    return tuple(
        (report.kind, _status(report), _NUMBERS.sub("0", report.body) if failed else report.body)
        for report in told
    )


def _status(report: Report) -> str:
    return dict(report.attrs).get("status", "ok")

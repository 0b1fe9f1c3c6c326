"""What the events of a run leave open, and how long it was at work."""

from __future__ import annotations

from codeact_kernel.agent.remains import Remains
from codeact_kernel.events import RunEnded, RunStarted, Spent, TurnStarted
from codeact_kernel.messages import Usage

NIGHT = 8 * 3_600.0


def after(*events):
    remains = Remains()
    for event in (RunStarted("r", "task", "m", "", 1_000.0), *events):
        remains.apply(event)
    return remains


def test_the_time_in_which_the_machine_slept_is_no_part_of_what_a_run_has_worked():
    slept = TurnStarted(2, 1_060.0 + NIGHT)
    assert after(slept).worked == 60.0 + NIGHT  # nothing tells more
    remains = after(slept, Spent(Usage(), 2, 65.0), TurnStarted(3, 1_070.0 + NIGHT))
    assert remains.worked == 65.0
    remains.apply(RunEnded("limit", None, Usage(), 3, 1_080.0 + NIGHT))
    assert remains.worked == 75.0
    remains.heard(1_090.0 + NIGHT)
    assert remains.worked == 85.0

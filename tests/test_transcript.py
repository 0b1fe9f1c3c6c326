"""What happened, folded together."""

from codeact_kernel.events import Appended, Reply, RunEnded, RunStarted, TurnStarted
from codeact_kernel.messages import Usage
from codeact_kernel.transcript import Transcript


def test_the_last_turn_is_that_of_which_something_came_however_many_runs_came_to_nothing_since():
    transcript = Transcript()
    transcript.apply(RunStarted("a", "t", "m", "", 0.0))
    transcript.apply(TurnStarted(1, 0.0))
    transcript.apply(Appended(1, Reply(1, "Done.")))
    for name in "bcd":
        transcript.apply(RunStarted(name, "t", "m", "", 0.0))
        transcript.apply(TurnStarted(2, 0.0))
        transcript.apply(RunEnded("failed", None, Usage(), 1, 0.0, "down"))
    assert transcript.last_turn == 1

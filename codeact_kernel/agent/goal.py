"""A standing goal: a task that outlives answers.

Comes in: the model's answers, what it declares, and a command that tells whether the goal is met. Goes out: whether an
answer ends the run, and else what the model reads next.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from codeact_kernel.agent.checking import Checked
from codeact_kernel.dialogue import note_report, shorten
from codeact_kernel.errors import ToolError
from codeact_kernel.events import Event, GoalChecked, GoalMet, GoalSet, Report
from codeact_kernel.transcript import Transcript

SENDER = "runtime"
_DECLARED = re.compile(r"^[\s>*_#`-]*GOAL MET\b[*_`:.,\s-]*(.*)", re.MULTILINE | re.DOTALL)
"""A line by which a model declares the goal met in its answer, and what follows; capitals, so that no sentence does."""
_HOW = (
    'call self.goal_met("what shows it") in a block and then answer, or answer with a line that begins with GOAL MET: '
    "and goes on with what shows it"
)
_STANDING = "This is a standing goal: you go on after your answers until it is met."


class Goal:
    """The goal of an agent's runs, one after the other; without one every answer is the last.

    Args:
        transcript: Knows what the run that goes on was begun with.
        check: Runs a command.
        emit: Gets the events.
        count: How many tokens a text is.
        limit: Tokens of the command's output that the model reads.
        handles: Whether blocks have a `self`.
    """

    def __init__(
        self,
        transcript: Transcript,
        check: Callable[[str], Awaitable[Checked]],
        emit: Callable[[Event], None],
        count: Callable[[str], int],
        *,
        limit: int,
        handles: bool = True,
    ) -> None:
        self._transcript = transcript
        self._check = check
        self._emit = emit
        self._count = count
        self._limit = limit
        self._how = _HOW if handles else _HOW.partition(" or ")[2]
        self._evidence = ""

    def begin(self, wanted: bool, until: str | None) -> None:
        """Take what the run that has begun was begun with.

        Args:
            wanted: Whether its task is a standing goal.
            until: A command whose success means that it is met; makes it one, too.
        """
        self._evidence = ""
        if wanted or until is not None:
            self._emit(GoalSet(until))

    @property
    def _is_set(self) -> bool:
        return bool(self._transcript.runs) and self._transcript.runs[-1].goal is not None

    @property
    def _until(self) -> str | None:
        goal = self._transcript.runs[-1].goal
        return goal.until if goal is not None else None

    def task(self, text: str) -> str:
        """A task with what the model has to know of a standing goal.

        Args:
            text: The task.
        """
        if not self._is_set:
            return text
        if self._until is not None:
            more = f"After each of them this is run, and its success means that it is met: {self._until}"
        else:
            more = f"Once it is, {self._how}."
        return f"{text}\n\n{_STANDING} {more}"

    @property
    def lines(self) -> tuple[str, ...]:
        """What an inventory says of it."""
        if not self._is_set:
            return ()
        how = f"{self._until} succeeds" if self._until is not None else "you have declared it met"
        return (f"The task is a standing goal: the run goes on until {how}.",)

    async def met(self, evidence: str) -> None:
        """Take the model's word that it is met; it counts with its next answer.

        Args:
            evidence: What shows it.

        Raises:
            ToolError: If there is no goal, no evidence, or a command that decides instead.
        """
        if not self._is_set:
            raise ToolError("there is no standing goal: your answer ends the run")
        if self._until is not None:
            raise ToolError(f"what decides is the success of {self._until}: answer, and it is run")
        if not isinstance(evidence, str) or not evidence.strip():
            raise ToolError("say what shows that the goal is met: what you ran, and what came of it")
        self._evidence = evidence.strip()

    async def after(self, answer: str) -> list[Report]:
        """Look at an answer.

        Args:
            answer: The answer.

        Returns:
            What the model reads next; nothing where the answer is the last.
        """
        if not self._is_set:
            return []
        return await self._checked(self._until) if self._until is not None else self._asked(answer)

    async def _checked(self, command: str) -> list[Report]:
        checked = await self._check(command)
        self._emit(GoalChecked(command, checked.code, checked.output, checked.seconds))
        if checked.code == 0:
            self._emit(GoalMet(command))
            return []
        ended = "took too long" if checked.timed_out else f"ended with exit code {checked.code}"
        # What a program prints is data: it stands in a result, not in what the runtime says.
        output = shorten(checked.output.strip("\n"), self._limit, self._count, None)
        return [
            Report("run_code_result", output, "until", (("status", "error"),)),
            note_report(
                SENDER, f"The goal is not met: {command} {ended}. Go on, and answer when it should succeed."
            ),
        ]

    def _asked(self, answer: str) -> list[Report]:
        declared = _DECLARED.search(answer)
        evidence = self._evidence or (declared[1].strip() if declared else "")
        if evidence:
            self._emit(GoalMet(evidence))
            return []
        if declared:
            return [note_report(SENDER, "Say behind GOAL MET: what shows that the goal is met.")]
        return [
            note_report(SENDER, f"Is the goal met? If so, {self._how}. If not, say what is next, and do it.")
        ]

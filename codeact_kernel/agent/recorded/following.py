"""Keeps a replay beside its record, and sees where it leaves it.

Comes in: what an agent says again; the events of the agent. Goes out: a hook that ends the run where its model would
read something else than had been read, or lets another model go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from codeact_kernel.agent.recorded.comparing import Compared, Course, texts_of
from codeact_kernel.agent.recorded.pacing import Pace
from codeact_kernel.agent.recorded.run import RecordedRun
from codeact_kernel.errors import Diverged
from codeact_kernel.events import Appended, Event, Notice
from codeact_kernel.messages import ModelRequest

if TYPE_CHECKING:
    from codeact_kernel.agent.models import Models

_SHOWN = 60
"""Characters of what was read that a line tells."""


class Following(Pace):
    """A hook and a listener of one agent, as `Pace` is.

    Args:
        recorded: What is replayed.
        before: As for `Pace`.
        place: Where its blocks run now.
        on_parting: Called once, where the conversation is no longer as recorded; says whether the replay goes on.
    """

    def __init__(
        self,
        recorded: RecordedRun,
        before: int | None,
        place: str,
        on_parting: Callable[[Compared], bool],
    ) -> None:
        super().__init__(recorded, before)
        self._course: Course | None = Course(recorded, place)
        self._on_parting = on_parting
        self._read: list[str] = []
        """What has entered the context since the last reply was asked for."""

    def __call__(self, event: Event) -> None:
        """Take an event."""
        super().__call__(event)
        if isinstance(event, Appended):
            self._read += texts_of(event.entry)

    async def before_model_call(self, request: ModelRequest) -> None:  # type: ignore[override]
        """Compare what is about to be read, once it is time for the reply.

        Raises:
            Diverged: If it is something else, and nothing goes on there.
        """
        is_reply = self._is_asked
        await super().before_model_call(request)
        if not is_reply or self.is_over or self._course is None:
            return
        read, self._read = self._read, []
        if (parting := self._course.next(read)) is not None:
            self._course = None
            if not self._on_parting(parting):
                self.end()


def follow(models: Models, place: str, emit: Callable[[Event], None]) -> Following | None:
    """Follow what an agent says again.

    Args:
        models: Those of the agent.
        place: Where its blocks run.
        emit: Hears of it where the conversation parts and the run goes on.

    Returns:
        The hook; None where nothing is said again, or only replies are known.

    Raises:
        RecordError: If the record cannot be read.
    """
    replay = models.replay
    if replay is None:
        return None

    def parts(at: Compared) -> bool:
        said = f"turn {at.turn} of {replay.record}: its model had read {told(at)}"
        match replay.where_it_parts:
            case "stop":
                how = "--then MODEL lets a model go on there, --then replay says the rest all the same"
                error = f"{said}: {how}"
                raise Diverged(error, turn=at.turn, recorded=at.before, now=at.after, model=models.model.name)
            case "live":
                models.go_live()
                emit(Notice("replay", f"{said}: {models.model.name} goes on"))
                return False
            case "told":
                emit(
                    Notice("replay", f"{said}: what was said up to turn {replay.before} is said all the same")
                )
        return True

    return Following(RecordedRun.load(replay.record), replay.before, place, parts)


def told(parting: Compared) -> str:
    """Where two texts begin to differ, in a line.

    Args:
        parting: The texts.
    """
    before, after = parting.before.splitlines(), parting.after.splitlines()
    same = next((n for n, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(before), len(after)) if same is None else same
    return f"{_quoted(before, at)}, and would read {_quoted(after, at)} now"


def _quoted(lines: list[str], at: int) -> str:
    if at >= len(lines):
        return "nothing more"
    line = lines[at].strip()
    return f'"{line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"}"'

"""What the world may do to us, as exceptions with fields.

Comes in: nothing. Goes out: the tree below, used by every room.

What the *model* causes (a misspelt attribute, a failing block) is never an exception but a value that goes
back to it as text. What *we* cause is a plain Python error and crashes. Only what the *world* causes (a
missing key, an endpoint that is down, a kernel that died) is one of these:

    CodeactError
    ├── ConfigError          the command line, the environment or a settings file is wrong
    ├── ModelError           a model endpoint failed
    │   ├── ModelUnreachable     no connection, or a time-out
    │   ├── RateLimited          it asked to wait longer than we may
    │   ├── ContextOverflow      the prompt does not fit the model's window
    │   ├── ModelRefused         it answered, and said no (bad key, unknown model, bad request)
    │   └── Diverged             a replayed model would read something else than it did when it was recorded
    ├── KernelError          a kernel failed
    │   ├── KernelStartTimeout   it did not answer in time
    │   ├── KernelDied           its process ended
    │   └── KernelLost           it lives, but a channel to it is gone
    ├── ToolError            a tool failed; the text is written for the model
    ├── RecordError          a record cannot be read or written
    └── LimitReached         a limit of the run was reached; the run can be resumed

Nobody reads an error's text to learn its kind: the class and the fields say it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar


class CodeactError(Exception):
    """Base of everything that the world can do to a run.

    Args:
        message: One line for a person that says what is wrong and, where something can be done, what to do.
    """

    exit_code: ClassVar[int] = 1
    """What the command line exits with when this ends it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConfigError(CodeactError):
    """What the command line, the environment or the settings say is wrong."""

    exit_code = 2


class ModelError(CodeactError):
    """A model endpoint failed.

    Args:
        message: One line for a person.
        model: The model that was asked, as the endpoint knows it.
        endpoint: The base URL that was asked.
        status: The HTTP status, or None where there was no response.
    """

    def __init__(
        self, message: str, *, model: str = "", endpoint: str = "", status: int | None = None
    ) -> None:
        super().__init__(message)
        self.model = model
        self.endpoint = endpoint
        self.status = status


class ModelUnreachable(ModelError):
    """No connection could be made, it broke, or the endpoint did not answer in time."""


class RateLimited(ModelError):
    """The endpoint asks for a longer wait than the retry rules allow.

    Args:
        message: One line for a person.
        retry_after: Seconds that the endpoint asks to wait, or None where it did not say.
        model: As in `ModelError`.
        endpoint: As in `ModelError`.
        status: As in `ModelError`.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        model: str = "",
        endpoint: str = "",
        status: int | None = 429,
    ) -> None:
        super().__init__(message, model=model, endpoint=endpoint, status=status)
        self.retry_after = retry_after


class ContextOverflow(ModelError):
    """The prompt is longer than the model's window."""


class ModelRefused(ModelError):
    """The endpoint answered and said no: a bad key, an unknown model, a request that it does not take."""


class Diverged(ModelError):
    """A replayed model would read something else than it had read, so its recorded reply is no reply to that.

    Args:
        message: One line for a person.
        turn: The turn whose reply was not given.
        recorded: What had been read before it, as far as that differs.
        now: What would be read.
        model: As in `ModelError`.
    """

    def __init__(self, message: str, *, turn: int, recorded: str, now: str, model: str = "") -> None:
        super().__init__(message, model=model)
        self.turn = turn
        self.recorded = recorded
        self.now = now


class KernelError(CodeactError):
    """A kernel failed."""


class KernelStartTimeout(KernelError):
    """A kernel did not answer within the time that it was given to start."""


SHOWN = 40
"""Names that are told by name; ours, about 200 tokens."""


class KernelDied(KernelError):
    """A kernel's process has ended.

    Args:
        message: One line for a person.
        returncode: The exit code; negative for a signal, as in `subprocess`; None where it is not known.
        lost: The names that the namespace held when it was last heard of, and that are not back.
        back: The names that were brought back from a checkpoint.
        reasons: Why a name is not back, where that is known.
        checkpoint: When the checkpoint was taken, as a time of day; empty where there is none.
    """

    def __init__(
        self,
        message: str,
        *,
        returncode: int | None = None,
        lost: tuple[str, ...] = (),
        back: tuple[str, ...] = (),
        reasons: Mapping[str, str] | None = None,
        checkpoint: str = "",
    ) -> None:
        super().__init__(message)
        self.returncode = returncode
        self.lost = lost
        self.back = back
        self.reasons = reasons or {}
        self.checkpoint = checkpoint

    @property
    def loss(self) -> str:
        """What became of the names, as sentences with a space before them; empty where there were none."""
        if self.checkpoint and not (self.back or self.reasons):
            kept = "What its names held is brought back from the checkpoint of {}, as far as it goes: {}."
            return " " + kept.format(self.checkpoint, _listed(self.lost)) if self.lost else ""
        told = ""
        if self.back:
            told += f" These names are back, as they were at {self.checkpoint}: {_listed(self.back)}."
        if self.lost:
            gone = [f"{name} ({self.reasons[name]})" if name in self.reasons else name for name in self.lost]
            told += f" These names are gone: {_listed(gone)}."
        return told


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


class KernelLost(KernelError):
    """A kernel's process lives, but a channel to it does not answer."""


class ToolError(CodeactError):
    """A tool failed. The message is read by the model."""


class RecordError(CodeactError):
    """A record cannot be read or written."""


class LimitReached(CodeactError):
    """A limit of the run was reached.

    Args:
        message: One line for a person.
        limit: The name of the limit: "turns", "seconds", "tokens", "cost".
        allowed: What was allowed, in the limit's own unit (turns, seconds, tokens, US dollars).
    """

    exit_code = 3

    def __init__(self, message: str, *, limit: str, allowed: float) -> None:
        super().__init__(message)
        self.limit = limit
        self.allowed = allowed

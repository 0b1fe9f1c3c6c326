"""What a run came to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeact_kernel.events import StopReason
from codeact_kernel.messages import Usage


@dataclass(frozen=True, slots=True)
class Run:
    """One task, done or stopped."""

    id: str
    task: str
    stop: StopReason
    """Why it ended: "answered", "limit", "cancelled", "failed"."""
    answer: str | None
    """The model's answer; None where there is none."""
    value: Any
    """The answer as `output_type`, validated; None without one."""
    usage: Usage
    turns: int
    seconds: float
    message: str = ""
    """Why it ended, in one line, where it was not an answer."""
    record: Path | None = None
    """The notebook that holds it; None where no record was kept."""

    def __str__(self) -> str:
        return self.answer or self.message

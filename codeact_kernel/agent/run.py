"""What a run came to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeact_kernel.events import StopReason
from codeact_kernel.messages import Usage

if TYPE_CHECKING:
    from codeact_kernel.agent.recorded import RecordedRun


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

    @staticmethod
    def load(path: str | Path) -> RecordedRun:
        """Read a run from its record: turns, blocks, messages, a frame. Nothing of it runs.

        Args:
            path: A run's folder, its `journal.jsonl`, or its `run.ipynb` alone.

        Raises:
            ConfigError: If there is no record.
            RecordError: If it cannot be read.
        """
        from codeact_kernel.agent.recorded import RecordedRun

        return RecordedRun.load(path)

    def __str__(self) -> str:
        return self.answer or self.message

"""What a run has come to so far, on one page for programs.

Comes in: events, the transcript that they are folded into. Goes out: `summary.json`, written when a turn begins and
when the run ends.
"""

from __future__ import annotations

import json
from typing import Any

from codeact_kernel.blocks import AgentBlock
from codeact_kernel.events import (
    BlockFinished,
    BlockQueued,
    Event,
    RunEnded,
    RunResumed,
    RunStarted,
    TurnStarted,
)
from codeact_kernel.record.clean import clean
from codeact_kernel.runfiles import Folder
from codeact_kernel.transcript import Transcript

SUMMARY = "summary.json"
_WORTH_WRITING = (RunStarted, RunResumed, TurnStarted, RunEnded)


class Summary:
    """Counts what the transcript does not, and writes.

    Args:
        transcript: Hears of each event first.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._blocks = self._failed = self._agents = 0
        self._before = self._of_run = 0.0
        """Seconds of the runs before, and of this one before it was resumed."""
        self._began = self._last = 0.0

    @property
    def _seconds(self) -> float:
        return self._before + self._of_run + max(0.0, self._last - self._began)

    def apply(self, event: Event) -> None:
        """Take an event.

        Args:
            event: The next event.
        """
        match event:
            case RunStarted():
                self._before = self._seconds
                self._of_run = 0.0
                self._began = self._last = event.at
            case RunResumed():
                self._of_run = event.worked
                self._began = self._last = event.at
            case BlockQueued():
                is_agent = isinstance(event.block, AgentBlock)
                self._agents += is_agent
                self._blocks += not is_agent
            case BlockFinished():
                self._failed += event.result.status != "ok" and not isinstance(event.result.block, AgentBlock)
                self._last = max(self._last, event.result.ended)
            case TurnStarted() | RunEnded():
                self._last = max(self._last, event.at)
            case _:
                pass

    def write(self, event: Event, folder: Folder) -> None:
        """Write it, where an event is worth that.

        Args:
            event: The event, which was taken already.
            folder: The run's, open.

        Raises:
            OSError: If it cannot be written; the old one is still there.
        """
        if isinstance(event, _WORTH_WRITING):
            text = json.dumps(self.told(), indent=1, ensure_ascii=False)
            folder.replace(SUMMARY, f"{text}\n".encode())

    def told(self) -> dict[str, Any]:
        """What it says: of the task the last one, of everything else all runs of the record together."""
        run, usage = self._transcript.runs[-1], self._transcript.usage
        end = run.end
        return dict(
            clean(
                {
                    "task": run.start.task,
                    "run_id": run.start.run_id,
                    "state": end.stop if end else "running",
                    "model": run.now.model,
                    "started": self._transcript.runs[0].start.at,
                    "last": self._last,
                    "seconds": round(self._seconds, 3),
                    "turns": self._transcript.turn_count,
                    "tokens": {
                        "input": usage.input_tokens,
                        "cached": usage.cached_tokens,
                        "output": usage.output_tokens,
                    },
                    "estimated": usage.estimated,
                    "cost": usage.cost,
                    "blocks": self._blocks,
                    "failed_blocks": self._failed,
                    "agents": self._agents,
                    "answer": end.answer if end else None,
                    "message": end.message if end else "",
                }
            )
        )

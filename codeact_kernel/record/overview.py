"""What stands at the top of a notebook: what the run has come to, and when which block ran.

Comes in: the runs of a transcript. Goes out: a table and a picture, as Markdown. Runs whose turns were taken out of the
transcript are counted once, so that it costs no more when a run goes on for days.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, replace

from codeact_kernel.blocks import AgentBlock, format_duration
from codeact_kernel.record.timeline import Kind, Timeline
from codeact_kernel.transcript import BlockRecord, RunRecord, Transcript, Turn


@dataclass(slots=True)
class Overview:
    """Counts, and the times of blocks and replies.

    Args:
        timeline: Takes the times.
    """

    timeline: Timeline
    replies: int = 0
    blocks: int = 0
    failed: int = 0
    agents: int = 0
    last: float = 0.0
    """When something last happened."""

    @classmethod
    def of(cls, transcript: Transcript) -> Overview:
        """Begin one.

        Args:
            transcript: Of which the first run tells where the picture begins.
        """
        return cls(Timeline(transcript.runs[0].start.at if transcript.runs else 0.0))

    def copy(self) -> Overview:
        """One that can go on by itself."""
        return replace(self, timeline=self.timeline.copy())

    def add(self, runs: Iterable[RunRecord]) -> None:
        """Count the turns of runs.

        Args:
            runs: They hold no turn that was counted before.
        """
        turns = [turn for run in runs for turn in run.turns]
        records = [record for turn in turns for record in turn.blocks]
        self.last = max(
            [self.last, *(_latest(turn) for turn in turns), *(_time(record) for record in records)]
        )
        for turn in turns:
            if turn.reply is not None:
                self.replies += 1
                self.timeline.add("model", turn.reply.started or turn.started, turn.reply.ended)
        for record in records:
            self._count(record)

    def figures(self, transcript: Transcript) -> dict[str, str]:
        """What the run has come to, by names.

        Args:
            transcript: All of whose turns were counted, now or before.
        """
        usage, end = transcript.usage, transcript.runs[-1].end
        cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
        return {
            "state": end.stop if end else "running",
            "turns": f"{sum(run.end.turns if run.end else run.turn_count for run in transcript.runs):,}",
            "blocks": f"{self.blocks:,}" + (f", {self.failed:,} not ok" if self.failed else ""),
            "sub-agents": f"{self.agents:,}",
            "tokens": f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out",
            "cost": "unknown" if usage.cost is None else f"${usage.cost:.4f}" if usage.cost else "$0",
            "time": format_duration(sum(map(self._worked, transcript.runs))),
        }

    def picture(self) -> str:
        """The picture, as the address of an image."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.timeline.svg().encode()).decode()}"

    def markdown(self, transcript: Transcript) -> str:
        """The table and the picture.

        Args:
            transcript: As for `figures`.
        """
        cells = self.figures(transcript)
        rows = (cells.keys(), ["---"] * len(cells), cells.values())
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        # Markdown's own pictures are no way for this one: some renderers take no SVG there.
        return f'{table}\n\n<img alt="which block ran when" src="{self.picture()}">'

    def _count(self, record: BlockRecord) -> None:
        is_agent = isinstance(record.block, AgentBlock)
        failed = record.result is not None and record.result.status != "ok"
        self.agents += is_agent
        self.blocks += not is_agent
        self.failed += failed and not is_agent
        if record.started is not None:
            ended = self.last if record.result is None else record.result.ended
            kind: Kind = "failed" if failed else "agent" if is_agent else "ok"
            self.timeline.add(kind, record.started, ended, record.id)

    def _worked(self, run: RunRecord) -> float:
        """Seconds that a run was at work."""
        last = run.end.at if run.end else max(self.last, run.now.at)
        return run.worked + max(0.0, last - run.now.at)


def _latest(turn: Turn) -> float:
    return max(turn.started, turn.reply.ended if turn.reply else 0.0)


def _time(record: BlockRecord) -> float:
    return max(record.queued, record.started or 0.0, record.result.ended if record.result else 0.0)

"""The parts of a reply and what comes of them.

Comes in: nothing. Goes out: the parts that the grammar reads from a reply (`Prose`, `CodeBlock`, `AgentBlock`,
`Cancel`, `Fault`), the outputs that a kernel sends (`Output`), and a block's end (`Outcome`, `BlockResult`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from codeact_kernel.messages import Usage

Lane = Literal["main", "async", "worker"]
Status = Literal["ok", "error", "timeout", "cancelled", "rejected", "skipped", "died"]
FaultKind = Literal["cut", "unclosed", "invented", "attribute", "duplicate", "empty", "call"]


@dataclass(frozen=True, slots=True)
class Prose:
    """Text of a reply that is no block. Prose never runs and never ends a run."""

    text: str


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A `run_code` block as the model wrote it."""

    code: str
    id: str | None = None
    timeout: float | None = None
    """Seconds from the first line of code; None leaves it to the setting."""
    heartbeat: float | None = None
    """Seconds between reports; None means none."""
    after: tuple[str, ...] | None = None
    """Blocks to wait for. None leaves the order to the names, `()` forces side by side."""
    lane: Lane | None = None


@dataclass(frozen=True, slots=True)
class AgentBlock:
    """A `run_agent` block as the model wrote it."""

    task: str
    id: str | None = None
    """The agent's name: `name` in the grammar. Ids and names are one set."""
    namespace: tuple[str, ...] = ()
    model: str | None = None
    timeout: float | None = None
    heartbeat: float | None = None
    after: tuple[str, ...] | None = None
    by: str | None = None
    """The block whose code has started it, and reads its answer; None where the model's reply has."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """`<cancel id="…"/>`: ends a block or an agent."""

    id: str


Block = CodeBlock | AgentBlock
Part = Prose | CodeBlock | AgentBlock | Cancel


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a reply that is not as the grammar wants it."""

    kind: FaultKind
    message: str
    """One or two sentences for the model: what was wrong, and what to write instead."""
    id: str | None = None
    """The block that it is about, where it has an id."""
    runs: bool = False
    """Whether the block ran all the same."""


@dataclass(frozen=True, slots=True)
class StreamOutput:
    """Text that a block wrote to stdout or stderr."""

    name: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True)
class DisplayOutput:
    """A MIME bundle that a block displayed, or an update of one."""

    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    display_id: str | None = None
    update: bool = False


@dataclass(frozen=True, slots=True)
class ResultOutput:
    """The value of a block's last expression, as a MIME bundle."""

    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    execution_count: int | None = None


@dataclass(frozen=True, slots=True)
class ErrorOutput:
    """An exception that ended a block, as Jupyter reports it (the traceback may hold ANSI colours)."""

    ename: str
    evalue: str
    traceback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClearOutput:
    """`clear_output`: drop what was shown so far, at once or when the next output comes."""

    wait: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Stands in the middle of a long output for what is not kept with the rest, and says exactly how much it is."""

    characters: int = 0
    """Of text, as the block wrote it."""
    lines: int = 0
    """Line ends in it."""
    outputs: int = 0
    """Displays, results and errors."""
    file: str | None = None
    """Where all of the block's text lies, seen from the run's folder; None where it has no file."""

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(
            self.characters + other.characters,
            self.lines + other.lines,
            self.outputs + other.outputs,
            self.file or other.file,
        )

    def __str__(self) -> str:
        """How much it is, in words."""
        parts = [f"{self.lines:,} lines"] if self.lines > 1 else []
        parts += [f"{self.characters:,} characters"] if self.characters or not self.outputs else []
        parts += [f"{self.outputs:,} displays"] if self.outputs > 1 else ["1 display"] * self.outputs
        return ", ".join(parts)


Output = StreamOutput | DisplayOutput | ResultOutput | ErrorOutput | ClearOutput | LeftOut


@dataclass(frozen=True, slots=True)
class Job:
    """A block with its settled id, ready to run."""

    id: str
    """Unique within the run; a reused id is numbered ("dl", then "dl#2")."""
    block: Block
    reply: int
    """The number of the reply that it came in; the order by names looks at one reply."""

    @property
    def name(self) -> str:
        """The id as the model wrote it, without the number of its reuse."""
        return self.id.partition("#")[0]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a runner says that a job has ended."""

    status: Status = "ok"
    error: str | None = None
    """For the model: a traceback shortened to the block's own frames, or why it did not run."""
    notes: tuple[str, ...] = ()
    """Further lines for the model ("waited for x, which block a assigns")."""
    lane: str | None = None
    execution_count: int | None = None
    names: tuple[str, ...] = ()
    """What the namespace holds now."""
    missing: int = 0
    """Output messages that were announced and never came."""
    usage: Usage = field(default_factory=Usage)
    """What a sub-agent's calls of models came to, those of its own sub-agents included."""
    ended: float | None = None
    """When it ended, in seconds since the epoch, where nobody was there to see it; None for now."""


@dataclass(frozen=True, slots=True)
class BlockResult:
    """A block's end, complete."""

    id: str
    block: Block
    outcome: Outcome
    outputs: tuple[Output, ...] = ()
    queued: float = 0.0
    """When it was handed to the runner, in seconds since the epoch."""
    started: float | None = None
    """When its first line of code ran; None where it never did."""
    ended: float = 0.0

    @property
    def status(self) -> Status:
        """The outcome's status."""
        return self.outcome.status

    @property
    def duration(self) -> float:
        """Seconds from the first line of code to the end."""
        return 0.0 if self.started is None else max(0.0, self.ended - self.started)


_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_LONGEST = 1e12
"""Seconds: a stranger's record may say anything, infinity too."""


def parse_duration(text: str) -> float:
    """Read `500ms`, `2s`, `5m`, `1h` or a bare number of seconds.

    Args:
        text: The duration as it was written.

    Returns:
        Seconds, above zero.

    Raises:
        ValueError: If it is no duration, or not above zero.
    """
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0.0 < seconds < float("inf"):
        raise ValueError(
            f"{text!r} is no duration: write 500ms, 2s, 5m, 1h or a number of seconds above zero"
        )
    return seconds


def format_duration(seconds: float) -> str:
    """Write a length of time for a reader: `0.25s`, `12s`, `3m20s`, `1h05m`.

    Args:
        seconds: The length of time; below zero counts as zero.

    Returns:
        At most two units, rounded to what matters at that size.
    """
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + "s" if seconds < 1 else f"{seconds:.1f}s"
    whole = round(min(seconds, _LONGEST))
    if whole < 100:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if minutes else f"{hours}h"

"""What happens in a run, in order, as frozen values.

Comes in: nothing. Goes out: the `Event` union. The agent's loop makes them; the transcript, the record, the
command line and a caller of `Agent.stream` read them. Times are seconds since the epoch.

It is long because it is a list: one class for each thing that can happen, and below them how they become JSON.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from codeact_kernel.approval import Door
from codeact_kernel.blocks import Block, BlockResult, Fault, Output, Part
from codeact_kernel.messages import ToolCall, Usage

StopReason = Literal["answered", "limit", "cancelled", "failed"]
DecidedBy = Literal["mode", "rule", "always", "person", "nobody"]
"""Who has decided: the mode, a rule, an earlier "always" of a person, a person now, or nobody who could be asked."""
ReportKind = Literal["run_code_result", "agent_result", "running", "note", "reminder", "fault"]


@dataclass(frozen=True, slots=True)
class Report:
    """One thing that the model gets to read: a result, a heartbeat, a note, a reminder, a fault of its reply."""

    kind: ReportKind
    body: str
    id: str | None = None
    """The block or agent that it is about."""
    attrs: tuple[tuple[str, str], ...] = ()
    """Further attributes of its tag, in order: status, duration, current, now, deadline, from."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task or question from the user; opens a run."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of the model, complete."""

    turn: int
    text: str
    """What stays in the context: without reasoning, and without what the parser dropped."""
    parts: tuple[Part, ...] = ()
    faults: tuple[Fault, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    """The calls, where the reply came through the endpoint's tool calling."""
    job_ids: tuple[str | None, ...] = ()
    """The settled id of each call's block, in the order of `calls`; None for a call that started nothing."""
    usage: Usage = field(default_factory=Usage)
    started: float = 0.0
    ended: float = 0.0
    finish: str | None = None
    """Why the model stopped, in the endpoint's word; None where it did not say."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the model reads next: everything that landed since its last reply, as one message."""

    reports: tuple[Report, ...]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """A compaction: replaces every entry before it by what the model wrote down, and what is alive."""

    text: str
    inventory: str = ""


Entry = Task | Reply | Observation | Knowledge


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins."""

    run_id: str
    task: str
    model: str
    system: str
    at: float
    kernel: str = ""
    """Which kernel it has, in words ("Python 3.11.7, ipykernel 7.4.0")."""
    approve: str = ""
    """The mode of approval; what that alone lets pass has no `Decided`, where it is a call."""
    sandbox: str = "none"
    """What that is walled in by."""
    about_sandbox: str = ""
    """What this does not hold, in words."""
    options: dict[str, Any] = field(default_factory=dict)
    """What was asked for, in plain values: what a resume goes by. No secret is among them."""


@dataclass(frozen=True, slots=True)
class GoalSet:
    """The run has a standing goal: its task, which outlives answers."""

    until: str | None
    """The command whose success means that it is met; None where the model says so."""


@dataclass(frozen=True, slots=True)
class GoalChecked:
    """The command was run that tells whether the goal is met."""

    command: str
    code: int
    """Its exit code; 0 is met."""
    output: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GoalMet:
    """The goal is met."""

    evidence: str
    """What the model says that shows it, or the command that succeeded."""


@dataclass(frozen=True, slots=True)
class WakeUpSet:
    """The model wants to be woken later; until then the run does not end."""

    id: str
    note: str
    """What it wants to be told then."""
    due: float
    at: float


@dataclass(frozen=True, slots=True)
class WakeUpEnded:
    """A wake-up has come, or was taken back."""

    id: str
    came: bool
    at: float


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A run goes on in another process, or after it had stopped: what counts from here on."""

    run_id: str
    at: float
    model: str
    kernel: str = ""
    approve: str = ""
    sandbox: str = "none"
    about_sandbox: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    """As in `RunStarted`."""
    worked: float = 0.0
    """Seconds that it had been at work before, as far as that is known."""


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The model is asked."""

    turn: int
    at: float
    context_tokens: int = 0
    window: int | None = None
    """Tokens that the model's window holds; None while that is not known."""


@dataclass(frozen=True, slots=True)
class ReplyDelta:
    """Characters of a reply, as they come."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class Drafted:
    """A block of a reply was launched, and the rest of the reply is still to come."""

    reply: Reply
    """As much of it as had come with that block."""


@dataclass(frozen=True, slots=True)
class ModelRetry:
    """A call to the model failed and is tried again."""

    turn: int
    reason: str
    wait: float


@dataclass(frozen=True, slots=True)
class Appended:
    """An entry was added to the context."""

    turn: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class BlockQueued:
    """A block was handed to its runner."""

    turn: int
    id: str
    block: Block
    at: float


@dataclass(frozen=True, slots=True)
class BlockChanged:
    """A block was changed before it ran; what runs is this."""

    id: str
    block: Block


@dataclass(frozen=True, slots=True)
class BlockStarted:
    """A block's first line of code runs."""

    id: str
    lane: str
    at: float


@dataclass(frozen=True, slots=True)
class BlockHeld:
    """A block cannot go on, because another one's synchronous code holds the lane that both run in.

    Its deadline stands still meanwhile.
    """

    id: str
    by: str
    """The other block."""


@dataclass(frozen=True, slots=True)
class BlockOutput:
    """A block put something out; `late` when it had ended already (its threads and tasks go on)."""

    id: str
    output: Output
    late: bool = False
    upto: tuple[int, int] | None = None
    """Where the kernel may outlive its host: its number of the next output, and how many characters the block's text
    has with this one; None where not all before that is kept yet."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A running block's report to the model."""

    id: str
    text: str
    current: float
    """Seconds since its first line of code."""
    more: tuple[Output, ...] = ()
    """Where the text is long: what is left out after this beginning, and its end."""


@dataclass(frozen=True, slots=True)
class BlockFinished:
    """A block has ended and is complete."""

    result: BlockResult


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Somebody wants a block to end; its end says what came of it."""

    id: str
    reason: str
    """Who wants it, or what ("by the user")."""
    at: float


@dataclass(frozen=True, slots=True)
class KernelEnded:
    """The kernel's process has ended, though the agent goes on; the next block gets a new one."""

    reason: str
    returncode: int | None
    """The exit code; negative for a signal; None where it is not known."""
    at: float


@dataclass(frozen=True, slots=True)
class KernelLeased:
    """The kernel may outlive this process: where who goes on with the run finds it."""

    folder: str
    socket: str
    """Its keeper's."""
    pid: int
    """The keeper's."""
    started: int
    """When the keeper was, in ticks since the machine was."""
    walls: str
    """What it was started with, as a digest."""
    uid: int | None = None
    """Its own user number, where it has one."""


@dataclass(frozen=True, slots=True)
class HostReached:
    """A block has reached for a host, where single hosts are allowed."""

    host: str
    port: int
    refused: str
    """Why it was not let through; empty where it was."""
    at: float


@dataclass(frozen=True, slots=True)
class NoteReceived:
    """A note for the model came in from a person or another agent."""

    sender: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """Code in a block calls a host tool."""

    call_id: str
    name: str
    block_id: str | None
    arguments: str
    """As code would write them, with JSON for values; of more than 16,384 characters the beginning."""
    digest: str = ""
    """Where that is only the beginning: the SHA-256 of all of it, as UTF-8."""


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool call ended."""

    call_id: str
    ok: bool
    seconds: float
    error: str = ""
    """Why it failed or was refused, as the block reads it; of a long text the beginning."""
    result: str = ""
    """What it gave, as JSON, where that is all of it and has at most 16,384 characters; a replay gives it again."""


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A block or a call waits until somebody has decided about it."""

    door: Door
    agent: str
    block_id: str | None
    name: str
    """"run_code", "run_agent" or the tool's full name."""
    why: str


@dataclass(frozen=True, slots=True)
class Decided:
    """The gate has decided about a block, or about a call that not the mode alone lets pass."""

    door: Door
    agent: str
    """Whose it is: "the agent", or a sub-agent's name."""
    block_id: str | None
    call_id: str | None
    """That of its `ToolCalled`; None for a block."""
    name: str
    """"run_code", "run_agent" or the tool's full name."""
    allowed: bool
    by: DecidedBy
    why: str
    """The mode, the rule or the person's words."""
    changed: str = ""
    """What runs instead, where somebody has changed it: the code, or the arguments as JSON."""
    waited: float = 0.0
    """Seconds until somebody had decided."""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelUsed:
    """A tool has asked a model of its own; what that used counts to the run."""

    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Spent:
    """What the run has used so far, all its agents together."""

    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that whoever watches the run should know."""

    about: Literal["overrun", "fallback", "replay"]
    """A reply was longer than its budget; another model answers, or the first one again; a replay is no longer as
    recorded."""
    text: str


@dataclass(frozen=True, slots=True)
class Audited:
    """How far the audit goes: kept with the journal and the notebook, so that a cut audit is found out."""

    lines: int
    head: str
    """The signature of the last line."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over."""

    stop: StopReason
    answer: str | None
    usage: Usage
    turns: int
    at: float
    message: str = ""
    """Why it stopped, in one line, where it was not an answer."""


Event = (
    RunStarted
    | RunResumed
    | GoalSet
    | GoalChecked
    | GoalMet
    | WakeUpSet
    | WakeUpEnded
    | TurnStarted
    | ReplyDelta
    | Drafted
    | ModelRetry
    | Appended
    | BlockQueued
    | BlockChanged
    | BlockStarted
    | BlockHeld
    | BlockOutput
    | Heartbeat
    | BlockFinished
    | CancelAsked
    | KernelEnded
    | KernelLeased
    | HostReached
    | NoteReceived
    | ToolCalled
    | ToolReturned
    | ApprovalAsked
    | Decided
    | ModelUsed
    | Spent
    | Notice
    | Audited
    | RunEnded
)


def to_json(value: Any) -> Any:
    """Turn an event, or anything inside one, into what `json.dumps` takes.

    Args:
        value: An event or a part of one.

    Returns:
        Dicts, lists and plain values; each dataclass carries its name under "type". `decoding.from_json` reads it.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value

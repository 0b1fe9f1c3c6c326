"""What happened, as reports that the model reads.

Comes in: block results, outputs of running blocks, notes, faults. Goes out: `Report`s, and the
`Observation` that holds them in the order in which they are read.

A block's report holds what it printed and displayed, shortened at its middle; the value of its last
expression where it showed nothing else; its error; the runner's remarks. Only the tag's attributes and the
boundary are beyond the reach of what a block prints: its body is data.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

from codeact_kernel.blocks import (
    AgentBlock,
    BlockResult,
    ClearOutput,
    DisplayOutput,
    ErrorOutput,
    Fault,
    LeftOut,
    Output,
    ResultOutput,
    StreamOutput,
    format_duration,
)
from codeact_kernel.controls import plain
from codeact_kernel.dialogue.bundles import bundle_text, is_picture
from codeact_kernel.dialogue.shorten import Count, Gap, one_line, shorten
from codeact_kernel.events import Observation, Report

RESULT_TOKENS = 2000
"""Tokens of a block's output that the model reads: an eighth of the 16k at which a context is compacted."""
ERROR_TOKENS = 800
"""Tokens of an error: a traceback of some twenty frames."""
HEARTBEAT_TOKENS = 200
"""Tokens of new output in a heartbeat, which is one of many."""
VALUE_CHARACTERS = 300
"""Characters of a value that was not printed."""

_ORDER = ("fault", "run_code_result", "agent_result", "running", "note", "reminder")


def observation(reports: Iterable[Report]) -> Observation:
    """Put reports into the order in which they are read.

    First what was wrong with the reply, then what has ended, then what runs, then notes, and a reminder last;
    within each kind as they came.
    """
    rank = {kind: _ORDER.index(kind) for kind in _ORDER}
    rank["agent_result"] = rank["run_code_result"]
    return Observation(tuple(sorted(reports, key=lambda report: rank[report.kind])))


def result_report(
    result: BlockResult,
    count: Count,
    *,
    limit: int = RESULT_TOKENS,
    remarks: Sequence[str] = (),
    handles: bool = True,
) -> Report:
    """Tell of a block's end.

    Args:
        result: The block, its outcome and its outputs.
        count: How many tokens a text is.
        limit: Tokens of its output that are kept.
        remarks: Further lines: the message of a fault with which the block ran all the same.
        handles: Whether the kernel has a `self` that can be asked for what was left out.
    """
    outcome, agent = result.outcome, isinstance(result.block, AgentBlock)
    handle = _handle(result.id, "result" if agent else "output") if handles else None
    shown, gap = _shown(result.outputs, whole_values=agent)
    parts = [shorten(shown, limit, count, handle, gap)]
    error = outcome.error or _error_of(result.outputs)
    if error:
        parts.append(shorten(plain(error).strip("\n"), min(limit, ERROR_TOKENS), count, handle))
    parts += [f"[{plain(remark)}]" for remark in (*outcome.notes, *remarks)]
    if outcome.missing:
        messages = "message" if outcome.missing == 1 else "messages"
        parts.append(f"[output lost in part: {outcome.missing:,} {messages} never came]")
    attrs = [] if result.status == "ok" else [("status", str(result.status))]
    if result.started is not None:
        attrs.append(("duration", format_duration(result.duration)))
    body = "\n".join(part for part in parts if part)
    return Report("agent_result" if agent else "run_code_result", body, result.id, tuple(attrs))


def running_report(
    job_id: str,
    outputs: Sequence[Output],
    count: Count,
    *,
    current: float,
    now: float,
    deadline: float | None = None,
    heartbeat: float | None = None,
    limit: int = HEARTBEAT_TOKENS,
    handles: bool = True,
) -> Report:
    """Tell what a running block has put out since the last heartbeat.

    Args:
        job_id: The block's settled id.
        outputs: What is new.
        count: How many tokens a text is.
        current: Seconds since its first line of code.
        now: The time, in seconds since the epoch.
        deadline: When it will be interrupted, in seconds since the epoch; None for never.
        heartbeat: Seconds between its reports, where they are not as the model asked.
        limit: Tokens of its output that are kept.
        handles: As in `result_report`.
    """
    handle = _handle(job_id, "output") if handles else None
    attrs = [("current", format_duration(current)), ("now", _clock(now))]
    if deadline is not None:
        attrs.append(("deadline", _clock(deadline)))
    if heartbeat is not None:
        attrs.append(("heartbeat", format_duration(heartbeat)))
    shown, gap = _shown(outputs, whole_values=False)
    body = shorten(shown, limit, count, handle, gap)
    return Report("running", body, job_id, tuple(attrs))


def note_report(sender: str, text: str) -> Report:
    """Pass on a note of the user's or of another agent's."""
    return Report("note", plain(text).strip("\n"), attrs=(("from", sender),))


def reminder_report(text: str) -> Report:
    """Remind the model of something, such as the size of its context."""
    return Report("reminder", plain(text).strip("\n"))


def held_report(by: str, held: Sequence[str]) -> Report:
    """Say that a block's synchronous code keeps others from going on.

    Args:
        by: The block that holds the lane.
        held: Those that wait.
    """
    return reminder_report(
        f"{', '.join(held)} cannot go on: {by} runs code without await in the event loop that blocks with await share. "
        f"Their deadlines stand still until {by} awaits or ends. Such code belongs into a block without await, or into "
        f"asyncio.to_thread; cancel {by} if it should not go on."
    )


def fault_report(fault: Fault) -> Report:
    """Tell what was wrong with a part of the reply."""
    return Report("fault", fault.message, fault.id)


def _handle(job_id: str, method: str) -> str:
    """Code that works when it is pasted; the number of a reused id is ours, the latest one is meant."""
    return f"self.{method}({json.dumps(job_id.partition('#')[0], ensure_ascii=False)})"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _shown(outputs: Sequence[Output], *, whole_values: bool) -> tuple[str, Gap | None]:
    """What a person would see in the end, as text; a value only where there is nothing else to see.

    With it comes what an excerpt leaves out, and where.
    """
    value = ""
    pieces: list[str] = []
    before_gap, gap = "", None
    for output in in_the_end(outputs):
        match output:
            case LeftOut():
                before_gap, gap, pieces = before_gap + "".join(pieces), (gap or LeftOut()) + output, []
            case StreamOutput():
                pieces.append(output.text)
            case ResultOutput() if not whole_values and not is_picture(output.data):
                value = bundle_text(output.data)
            case DisplayOutput() | ResultOutput():
                start = "\n" if pieces and not pieces[-1].endswith("\n") else ""
                pieces.append(f"{start}{bundle_text(output.data)}\n")
            case _:
                pass
    text = plain("".join(pieces)).rstrip("\n")
    if gap is not None:
        head = plain(before_gap)
        return head + text, (len(head), gap)
    return text if text.strip() or not value else f"Out: {one_line(plain(value), VALUE_CHARACTERS)}", None


def in_the_end(outputs: Sequence[Output]) -> list[Output]:
    """What is left of outputs when displays were updated and output was cleared, as a notebook would show it.

    Args:
        outputs: All of them, in order.
    """
    kept: list[Output] = []
    places: dict[str, list[int]] = {}
    clear = False
    for output in outputs:
        if isinstance(output, ClearOutput) and output.wait:
            clear = True
            continue
        if clear or isinstance(output, ClearOutput):
            kept.clear()
            places.clear()
            clear = False
        if isinstance(output, ClearOutput):
            continue
        if isinstance(output, DisplayOutput) and output.display_id:
            shown = places.setdefault(output.display_id, [])
            if output.update and shown:
                for place in shown:
                    kept[place] = output
                continue
            shown.append(len(kept))
        kept.append(output)
    return kept


def _error_of(outputs: Sequence[Output]) -> str:
    errors = [output for output in outputs if isinstance(output, ErrorOutput)]
    return f"{errors[-1].ename}: {errors[-1].evalue}" if errors else ""

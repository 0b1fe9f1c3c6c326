"""Compactions: what the model wrote down, or what the runtime keeps for it, and what is alive.

Comes in: the model's text, or the entries of a full window; and, as plain data, what runs and what the
namespace holds. Goes out: a `Knowledge` entry, which replaces every entry before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from codeact_kernel.blocks import format_duration
from codeact_kernel.context.window import visible
from codeact_kernel.errors import ToolError
from codeact_kernel.events import Entry, Knowledge, Observation, Reply, Report, Task

MOST_LISTED = 20
"""Lines of each kind in an inventory; the rest is counted."""
LONGEST_LINE = 120
"""Characters of a task, a command or a value in an inventory."""
_FORCED = (
    "(The runtime wrote this: the context was full and had not been compacted. What follows is the task and "
    "the latest turns, shortened. self.output(id) gives a block's whole output.)"
)
_TURN_SHARE = 4
"""A single entry gets at most a quarter of the room, so that several turns stay."""


@dataclass(frozen=True, slots=True)
class AliveBlock:
    """A block that runs or waits."""

    id: str
    code: str
    seconds: float | None = None
    """Since its first line of code; None where it has not started."""
    left: float | None = None
    """Seconds to its timeout, or None where it has none."""


@dataclass(frozen=True, slots=True)
class AliveAgent:
    """A sub-agent that works."""

    name: str
    task: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class AliveProcess:
    """A child process of a block."""

    pid: int
    command: str
    block: str | None = None


@dataclass(frozen=True, slots=True)
class AliveVariable:
    """A name in the namespace."""

    name: str
    summary: str = ""
    """Its type, and its shape or length where it has one ("DataFrame (1000, 5)"); empty where not known."""
    size: int | None = None
    """Bytes, where known."""


@dataclass(frozen=True, slots=True)
class Alive:
    """All that outlives a compaction."""

    blocks: tuple[AliveBlock, ...] = ()
    agents: tuple[AliveAgent, ...] = ()
    processes: tuple[AliveProcess, ...] = ()
    variables: tuple[AliveVariable, ...] = ()
    outputs: tuple[str, ...] = ()
    """Ids of ended blocks whose output can still be read, latest last."""


def inventory(alive: Alive) -> str:
    """List what is alive, one line each; the largest variables and the latest outputs first.

    Args:
        alive: What there is.

    Returns:
        The text; empty where nothing is alive.
    """
    known = [variable for variable in alive.variables if variable.summary]
    largest = sorted(known, key=lambda variable: -(variable.size or 0))
    bare = [variable.name for variable in alive.variables if not variable.summary]
    outputs = alive.outputs[::-1]
    parts = (
        _section("Blocks still running:", [_block_line(block) for block in alive.blocks]),
        _section("Agents still at work:", [_agent_line(agent) for agent in alive.agents]),
        _section("Child processes:", [_process_line(process) for process in alive.processes]),
        _section("Variables:", [_variable_line(variable) for variable in largest]),
        _listing("Other names:" if known else "Names in the namespace:", bare),
        _listing("Outputs that self.output(id) still gives, latest first:", outputs),
    )
    return "\n".join(part for part in parts if part)


def _section(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    more = len(lines) - MOST_LISTED
    rest = [f"- and {more} more"] if more > 0 else []
    return "\n".join([title, *(f"- {line}" for line in lines[:MOST_LISTED]), *rest])


def _listing(title: str, names: Sequence[str]) -> str:
    """Names that need no line of their own; four times as many of them as lines."""
    shown = names[: 4 * MOST_LISTED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{title} {', '.join(shown)}{more}" if names else ""


def _block_line(block: AliveBlock) -> str:
    age = "waiting" if block.seconds is None else f"running for {format_duration(block.seconds)}"
    left = "" if block.left is None else f", timeout in {format_duration(block.left)}"
    return f"{block.id} ({age}{left}): {_short(block.code)}"


def _agent_line(agent: AliveAgent) -> str:
    age = "waiting" if agent.seconds is None else f"for {format_duration(agent.seconds)}"
    return f"{agent.name} ({age}): {_short(agent.task)}"


def _process_line(process: AliveProcess) -> str:
    owner = "" if process.block is None else f" (of block {process.block})"
    return f"{process.pid}{owner}: {_short(process.command)}"


def _variable_line(variable: AliveVariable) -> str:
    size = "" if variable.size is None else f" ({_bytes(variable.size)})"
    return f"{variable.name}: {_short(variable.summary)}{size}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def compact(text: str, alive: Alive) -> Knowledge:
    """Make the entry for `self.compact_knowledge(text)`.

    Args:
        text: What the model wrote down.
        alive: What outlives it.

    Raises:
        ToolError: If the model wrote nothing: all that it knows would be gone. The text is for the model.
    """
    if not isinstance(text, str) or not text.strip():
        raise ToolError(
            "compact_knowledge takes a text with all that you still need to know; it replaces your context, "
            "and an empty one would leave you with nothing. Nothing was changed."
        )
    return Knowledge(text.strip(), inventory(alive))


def compact_by_force(
    entries: Sequence[Entry], alive: Alive, budget: int, count: Callable[[str], int]
) -> Knowledge:
    """Compact a full window without the model: the last resort.

    What stays is what an earlier compaction says, the latest task, and of the turns after it the latest, each
    shortened in its middle. The transcript and the record keep all of it.

    Args:
        entries: The transcript's entries, oldest first.
        alive: What outlives it.
        budget: Tokens that the text may have, the inventory not counted.
        count: Counts a text's tokens.
    """
    seen = visible(entries)
    tasks = [entry.text for entry in seen if isinstance(entry, Task)]
    known = [entry.text for entry in seen if isinstance(entry, Knowledge)]
    room = max(0, budget - count(_FORCED))
    parts = [_fit(f"Known before:\n{text}", room // _TURN_SHARE, count) for text in known]
    parts += [_fit(f"The task:\n{text}", room // _TURN_SHARE, count) for text in tasks[-1:]]
    room -= sum(count(part) + 1 for part in parts)
    turns: list[str] = []
    for told in (_told(entry) for entry in reversed(seen) if isinstance(entry, Reply | Observation)):
        text = _fit(told, min(room, budget // _TURN_SHARE), count)
        if not text:
            break
        turns.insert(0, text)
        room -= count(text) + 1
    body = "\n\n".join(part for part in (_FORCED, *parts, *turns) if part)
    return Knowledge(body, inventory(alive))


def _told(entry: Reply | Observation) -> str:
    if isinstance(entry, Reply):
        return f"You wrote:\n{entry.text}"
    return "You read:\n" + "\n".join(_told_report(report) for report in entry.reports)


def _told_report(report: Report) -> str:
    words: Iterable[str] = (
        report.kind,
        report.id or "",
        *(f"{name}={value}" for name, value in report.attrs),
    )
    return f"[{' '.join(word for word in words if word)}] {report.body}"


def _fit(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """Cut the middle out of a text until it has so many tokens; nothing where not even a little fits."""
    whole, keep = text, len(text)
    while (size := count(text)) > tokens:
        keep = min(keep - 1, int(keep * 0.9 * tokens / size))
        if keep < LONGEST_LINE:
            return ""
        head, tail = whole[: keep * 2 // 3], whole[len(whole) - keep // 3 :]
        text = f"{head}\n… ({len(whole) - len(head) - len(tail)} characters left out) …\n{tail}"
    return text

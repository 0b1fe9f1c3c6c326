"""What outlives a compaction, and how the model is told of it.

Comes in: as plain data, what runs, what the namespace holds, what can still be read. Goes out: an inventory, a line
for each thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codeact_kernel.blocks import format_duration

MOST_LISTED = 20
"""Lines of each kind in an inventory; the rest is counted."""
LONGEST_LINE = 120
"""Characters of a task, a command or a value in an inventory."""


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
    """Its type, and its shape or length where it has one ("DataFrame 1000x5"); empty where not known."""
    size: int | None = None
    """About how many bytes, where known."""


@dataclass(frozen=True, slots=True)
class AliveFile:
    """A file of the workspace that was written while the agent was at work."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Alive:
    """All that outlives a compaction."""

    blocks: tuple[AliveBlock, ...] = ()
    agents: tuple[AliveAgent, ...] = ()
    processes: tuple[AliveProcess, ...] = ()
    variables: tuple[AliveVariable, ...] = ()
    outputs: tuple[str, ...] = ()
    """Ids of ended blocks whose output can still be read, latest last."""
    results: tuple[str, ...] = ()
    """Names of ended sub-agents whose results can still be had, latest last."""
    files: tuple[AliveFile, ...] = ()
    """Latest first."""
    all_files: bool = True
    """Whether all of the workspace was looked at."""
    more: tuple[str, ...] = ()
    """Further lines."""


def inventory(alive: Alive) -> str:
    """List what is alive, one line each; the largest variables and the latest files, outputs and results first.

    Args:
        alive: What there is.

    Returns:
        The text; empty where nothing is alive.
    """
    known = [variable for variable in alive.variables if variable.summary]
    largest = sorted(known, key=lambda variable: -(variable.size or 0))
    shown = {variable.name for variable in largest[:MOST_LISTED]}
    rest = [variable.name for variable in alive.variables if variable.name not in shown]
    seen = "" if alive.all_files else ", as far as it was looked at"
    parts = (
        _section("Blocks still running:", [_block_line(block) for block in alive.blocks]),
        _section("Agents still at work:", [_agent_line(agent) for agent in alive.agents]),
        _section("Child processes:", [_process_line(process) for process in alive.processes]),
        _section("Variables, largest first:", [_variable_line(v) for v in largest[:MOST_LISTED]]),
        _listing("Other names:" if known else "Names in the namespace:", rest),
        _section(
            f"Files written in the workspace, latest first{seen}:", [_file_line(f) for f in alive.files]
        ),
        _listing("Outputs that self.output(id) still gives, latest first:", alive.outputs[::-1]),
        _listing("Results that self.result(name) still gives, latest first:", alive.results[::-1]),
        *alive.more,
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
    size = "" if variable.size is None else f" (about {_bytes(variable.size)})"
    return f"{variable.name}: {_short(variable.summary)}{size}"


def _file_line(file: AliveFile) -> str:
    return f"{_short(file.path)} ({_bytes(file.size)})"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"

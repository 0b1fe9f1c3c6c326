"""A run that somebody else works on, as one picture for a terminal.

Comes in: a `WatchedRun`. Goes out: lines of rich, cleaned of all that a terminal would obey, as many as there is room
for: what the run is and has used, its agents as a tree, what each of them is doing, and how it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from codeact_kernel.agent import WatchedAgent, WatchedRun
from codeact_kernel.blocks import format_duration
from codeact_kernel.cli.progress import SPINNER
from codeact_kernel.cli.streams import clean
from codeact_kernel.cli.told import cut, told_live, told_usage, told_wake_up
from codeact_kernel.runfiles import as_typed

ANSWER_LINES = 10
"""Lines of an answer that are shown, the first ones; the record has all of it."""
_STYLES = {"running": "cyan", "answered": "green", "limit": "yellow", "cancelled": "yellow"}
_PER_LEVEL = 2
"""Columns by which what belongs to a sub-agent is moved to the right."""


def told_run(run: WatchedRun, now: float, height: int) -> RenderableType:
    """Draw a run.

    Args:
        run: The run, polled.
        now: The time in seconds since the epoch.
        height: Lines that it may take.
    """
    head, end = _head(run), _end(run)
    mark = SPINNER[int(now * 5) % len(SPINNER)]
    lines = [] if run.is_over else list(_agent(run.agent, "the agent", 0, mark, now))
    room = max(1, height - len(head) - len(end))
    if len(lines) > room:
        more = len(lines) - room + 1
        lines = [*lines[: room - 1], Text(f"… {more} more lines", style="dim")]
    return Group(*head, *lines, *end)


def _head(run: WatchedRun) -> list[Text]:
    """Which run it is, how it stands, and what it has used."""
    agent = run.agent
    task = _flat(agent.start.task) if agent.start else "nothing has happened yet"
    state = f"{run.state}, process {run.pid}" if run.pid else run.state
    turns = agent.spent.turns if agent.spent else agent.turns
    facts = [
        *([_flat(agent.now.model)] if agent.now else []),
        format_duration(run.seconds),
        f"{turns:,} turn{'s'[: turns != 1]}",
        *told_usage(run.usage),
    ]
    style = _STYLES.get(run.state, "red")
    return [
        cut(Text(_flat(as_typed(run.folder)), style="dim")),
        cut(Text(task, style="bold")),
        cut(Text.assemble((state, style), (f" · {' · '.join(facts)}", "dim"))),
    ]


def _end(run: WatchedRun) -> list[Text]:
    """How it has ended, and what can be done then."""
    end = run.agent.end
    lines: list[Text] = []
    if end is not None and end.message:
        lines.append(Text(_flat(end.message), style="yellow"))
    if end is not None and end.answer:
        answer = clean(end.answer).strip().split("\n")
        lines += [cut(Text(line)) for line in answer[:ANSWER_LINES]]
        if (left := len(answer) - ANSWER_LINES) > 0:
            lines.append(Text(f"… {left:,} more line{'s'[: left > 1]}", style="dim"))
    if run.state == "crashed":
        lines.append(
            Text(f"no process works on it; codeact resume {_flat(as_typed(run.folder))} goes on", style="red")
        )
    return lines


def _agent(agent: WatchedAgent, name: str, level: int, mark: str, now: float) -> Iterator[Text]:
    """An agent: one line of figures, a line for each block that lives, and its sub-agents."""
    facts = [f"turn {agent.turn:,}", _context(agent)]
    if level:
        facts += told_usage(agent.usage)
    if agent.asked is not None:
        facts.append(f"the model thinks, {format_duration(now - agent.asked)}")
    yield _line(Text.assemble((clean(name), "bold"), (f"  {' · '.join(filter(None, facts))}", "dim")), level)
    if agent.trouble:
        yield _line(Text(clean(agent.trouble), style="yellow"), level + 1)
    at_work = agent.at_work
    for block in agent.blocks:
        if block.id not in at_work:
            yield _line(told_live(block, mark, now), level + 1)
    if not agent.live:
        yield from (_line(told_wake_up(wake_up, now), level + 1) for wake_up in agent.wake_ups.values())
    for below, its in at_work.items():
        yield from _agent(its, below, level + 1, mark, now)
    if agent.gone:
        said = f"{agent.gone:,} sub-agent{' has' if agent.gone == 1 else 's have'} ended"
        yield _line(Text(said, style="dim"), level + 1)


def _context(agent: WatchedAgent) -> str:
    """How full the context was when the model was last asked."""
    if not agent.window:
        return f"context {agent.context_tokens:,} tokens"
    share = agent.context_tokens / agent.window
    return f"context {agent.context_tokens:,} of {agent.window:,} tokens ({share:.0%})"


def _flat(text: str) -> str:
    return " ".join(clean(text).split())


def _line(text: Text, level: int) -> Text:
    """A line of its own, whatever stands in it: a name in a stranger's record may have line ends."""
    return cut(Text(" " * (_PER_LEVEL * level)).append_text(Text(" ").join(text.split("\n"))))

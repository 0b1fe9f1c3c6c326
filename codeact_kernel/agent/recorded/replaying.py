"""A recorded run once more: shown as it went, or its blocks executed again.

Comes in: a recorded run. Goes out: its events with their times; its tools, which give again what they gave; the record
of the same replies in a fresh kernel.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeact_kernel.agent.options import REPLAY
from codeact_kernel.agent.recorded.run import RecordedRun, events_of
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.errors import ModelRefused, ToolError
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    Event,
    Reply,
    ReplyDelta,
    ToolCalled,
    ToolReturned,
    TurnStarted,
)
from codeact_kernel.tools import Tool, Toolset, as_tool, kept_arguments

if TYPE_CHECKING:
    from codeact_kernel.agent.agent import Agent


def moments(recorded: RecordedRun) -> list[tuple[float, Event]]:
    """The events of a run in order, each with its time in seconds since the epoch.

    Args:
        recorded: The run. What its model wrote is told as the turn begins, since no record says when each word came.
    """
    events = [event for event in events_of(recorded.path) if not isinstance(event, ReplyDelta)]
    texts = {
        event.entry.turn: event.entry.text
        for event in events
        if isinstance(event, Appended) and isinstance(event.entry, Reply)
    }
    by_cells = recorded.path.suffix == ".ipynb"
    """A notebook tells of one block after the other, also where they ran at once."""
    timed: list[tuple[float, Event]] = []
    at = 0.0
    for event in events:
        at = _time_of(event, at) if by_cells else max(at, _time_of(event, at))
        timed.append((at, event))
        if isinstance(event, TurnStarted) and event.turn in texts:
            timed.append((at, ReplyDelta(event.turn, texts.pop(event.turn))))
    return sorted(timed, key=lambda moment: moment[0]) if by_cells else timed


def answering_tools(
    recorded: RecordedRun,
    tools: Iterable[Callable[..., Any] | Tool | Toolset],
    is_live: Callable[[], bool] = lambda: False,
) -> list[Tool]:
    """The tools of a recorded run, which give again what they gave, and do nothing.

    Args:
        recorded: The run; its journal has the answers.
        tools: Those that are known, with their signatures. Of others it is known how blocks called them.
        is_live: Whether they are called by now, as far as they are known.
    """
    answers = _Answers(events_of(recorded.path), is_live)
    known = [as_tool(tool) for tool in tools if not isinstance(tool, Toolset)]
    codes = "\n".join(record.block.code for record in recorded.blocks if isinstance(record.block, CodeBlock))
    others = sorted(answers.names - {tool.called for tool in known})
    return [
        *(answers.of(tool, by_arguments=True) for tool in known),
        *(answers.of(_unknown(name, codes), by_arguments=False) for name in others),
    ]


async def execute(
    recorded: RecordedRun, fields: dict[str, Any], folder: Path, *, live_tools: bool = False
) -> RecordedRun:
    """Run the recorded replies once more: the same blocks, in a fresh kernel, beside each other as they were.

    Args:
        recorded: The run.
        fields: Those of the agent, but for its model, protocol and record.
        folder: Where the new record goes.
        live_tools: Whether tools are called; else the record answers.

    Returns:
        What came of it.

    Raises:
        ConfigError: If its notebook, which has the replies, is not there.
        CodeactError: What `Agent` raises.
    """
    from codeact_kernel.agent.agent import Agent  # which replays, too

    tools = [*fields.get("tools", ())]
    own = {
        "model": f"replay:{recorded.notebook}",
        "then": REPLAY,
        "protocol": str(recorded.about.options.get("protocol", "tags")),
        "run_dir": folder,
        "tools": tools if live_tools else answering_tools(recorded, tools),
    }
    async with Agent(**{**fields, **own}) as agent:
        for run in recorded.transcript.runs:
            with suppress(ModelRefused):  # it was stopped there: no further reply was recorded
                await agent.run(run.start.task)
    return RecordedRun.load(folder)


def fork(
    recorded: RecordedRun, turn: int, fields: Mapping[str, Any]
) -> tuple[list[str], Callable[..., Agent]]:
    """Prepare a run that begins as another one, and goes on by itself.

    Args:
        recorded: The other one.
        turn: The first turn that the agent's own model answers. Till then tools give what they gave.
        fields: Those of the agent.

    Returns:
        The tasks up to that turn; and what makes the agent, of fields that are not as these.
    """
    from codeact_kernel.agent.agent import Agent

    now = _Now()
    runs = recorded.transcript.runs
    tasks = [run.start.task for run in runs if run.number == 0 or (run.turns and run.turns[0].number < turn)]
    own = {
        "fork": (recorded.notebook, turn),
        "protocol": str(recorded.about.options.get("protocol", "tags")),
        "tools": answering_tools(recorded, fields.get("tools", ()), lambda: now.turn >= turn),
    }

    def make(**given: Any) -> Agent:
        return Agent(**{**fields, **given, **own, "observers": [*given.get("observers", ()), now]})

    return tasks, make


class _Now:
    """Which turn an agent is in."""

    turn = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self.turn = event.turn


class _Answers:
    """What tools gave: each answer once, and where one is asked for once more, the last of them again."""

    def __init__(self, events: Iterable[Event], is_live: Callable[[], bool]) -> None:
        self._is_live = is_live
        self.names: set[str] = set()
        self._given: defaultdict[tuple[str, ...], deque[ToolReturned]] = defaultdict(deque)
        """By name and arguments; and, for tools whose signature is not known, by name alone."""
        asked: dict[str, ToolCalled] = {}
        for event in events:
            if isinstance(event, ToolCalled):
                asked[event.call_id] = event
                self.names.add(event.name)
            elif isinstance(event, ToolReturned) and (call := asked.pop(event.call_id, None)):
                self._given[call.name, call.arguments, call.digest].append(event)
                self._given[(call.name,)].append(event)

    def of(self, tool: Tool, *, by_arguments: bool) -> Tool:
        """A tool that gives what was recorded."""

        def answer(*args: Any, **kwargs: Any) -> Any:
            if by_arguments and self._is_live():
                return tool.function(*args, **kwargs)
            said = kept_arguments(args, kwargs) if by_arguments else ()
            return self._next((tool.called, *said))

        async def later(*args: Any, **kwargs: Any) -> Any:
            given = answer(*args, **kwargs)
            return await given if inspect.isawaitable(given) else given

        return replace(tool, function=later if tool.is_async else answer)

    def _next(self, call: tuple[str, ...]) -> Any:
        given = self._given.get(call)
        if not given:
            raise ToolError(f"the record has no call of {call[0]} with these arguments")
        event = given.popleft() if len(given) > 1 else given[0]
        if not event.ok:
            raise ToolError(event.error)
        try:
            return json.loads(event.result)
        except ValueError:
            raise ToolError(
                f"the record does not hold what {call[0]} gave: it was long, or no plain value"
            ) from None


def _unknown(name: str, codes: str) -> Tool:
    """A tool of which only calls are known; whether it is awaited, code tells."""
    *groups, last = re.split("[:.]", name)
    is_async = re.search(rf"await\s+(?:[\w.]+\.)?{re.escape(last)}\(", codes) is not None
    return Tool(
        last,
        print,
        "(*args, **kwargs)",
        "As it was recorded.",
        is_async,
        group=".".join(groups),
        full_name=name,
    )


def _time_of(event: Event, before: float) -> float:
    """When something happened; what does not say it happened with what came before."""
    match event:
        case BlockFinished():
            return event.result.ended
        case Appended(entry=Reply() as reply):
            return reply.ended or before
        case _:
            return float(getattr(event, "at", before))

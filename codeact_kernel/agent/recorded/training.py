"""Recorded runs as samples to train a model on.

Comes in: recorded runs. Goes out: conversations in one of two formats that trainers read: each once, checked, counted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from codeact_kernel.agent.recorded.rules import fault_of_messages, fault_of_sharegpt
from codeact_kernel.agent.recorded.run import RecordedRun, events_of
from codeact_kernel.context import Counter
from codeact_kernel.events import GoalMet
from codeact_kernel.messages import Message

Where = Literal["all", "answered", "passed"]
Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Sample:
    """A conversation that ends with a reply."""

    line: str
    """As JSON, in one line."""
    tokens: int
    is_validation: bool


def samples(
    runs: Iterable[RecordedRun],
    *,
    sharegpt: bool = False,
    system: bool = True,
    where: Where = "all",
    validation: float = 0.0,
    left_out: Callable[[str], object] = lambda fault: None,
) -> Iterator[Sample]:
    """The samples of runs; what is said twice, word for word, comes once, and what no trainer would take does not.

    Args:
        runs: The runs.
        sharegpt: Whether they are written as ShareGPT has them, instead of as Chat Completions does.
        system: Whether they begin with the system prompt; the aim of a training may be a model that needs none.
        where: Of which runs: all, those that were answered, or those whose goal is known to be met.
        validation: Which part of the runs is for validation; by the run's id, so that it is the same each time.
        left_out: Hears of each conversation that breaks the format's rules, with what is wrong.
    """
    counter, seen = Counter(), set[bytes]()
    for run in runs:
        if not _counts(run, where):
            continue
        is_validation = _share(run.last.start.run_id) < validation
        for messages in run.samples(system=system):
            sample = _sharegpt(messages, run.tools) if sharegpt else _chat(messages, run.tools)
            if (fault := (fault_of_sharegpt if sharegpt else fault_of_messages)(sample)) is not None:
                left_out(fault)
                continue
            line = json.dumps(sample, ensure_ascii=False)
            digest = hashlib.sha256(line.encode("utf-8", "replace")).digest()
            if digest not in seen:
                seen.add(digest)
                tokens = counter.count_messages([Message(m["role"], _weight(m)) for m in messages])
                yield Sample(line.encode("utf-8", "replace").decode(), tokens, is_validation)


def _counts(run: RecordedRun, where: Where) -> bool:
    match where:
        case "all":
            return True
        case "answered":
            return run.stop == "answered"
        case "passed":
            return any(isinstance(event, GoalMet) for event in events_of(run.path))


def _share(run_id: str) -> float:
    """A number from 0 to 1 that goes with a run."""
    return int.from_bytes(hashlib.sha256(run_id.encode("utf-8", "replace")).digest()[:8]) / 2**64


def _weight(message: dict[str, Any]) -> str:
    return str(message["content"]) + "".join(
        c["function"]["arguments"] for c in message.get("tool_calls", ())
    )


_FROM = {"system": "system", "user": "human", "assistant": "gpt", "tool": "observation"}
_ASKS = ("human", "observation")


def _chat(messages: Messages, tools: Messages) -> dict[str, Any]:
    return {"messages": messages, "tools": tools} if tools else {"messages": messages}


def _sharegpt(messages: Messages, tools: Messages) -> dict[str, Any]:
    """The same with questions and replies in turns: what is read in one go is one turn.

    A turn that calls has no place for prose.
    """
    turns: list[dict[str, str]] = []
    for message in messages:
        if calls := [call["function"] for call in message.get("tool_calls", ())]:
            told = [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in calls]
            value = json.dumps(told[0] if len(told) == 1 else told, ensure_ascii=False)
            turns.append({"from": "function_call", "value": value})
            continue
        sender = _FROM[message["role"]]
        if turns and sender in _ASKS and turns[-1]["from"] in _ASKS:
            turns[-1]["value"] += f"\n\n{message['content']}"
        else:
            turns.append({"from": sender, "value": message["content"]})
    offered = [tool["function"] for tool in tools]
    about = {"tools": json.dumps(offered, ensure_ascii=False)} if offered else {}
    return {"conversations": turns, **about}

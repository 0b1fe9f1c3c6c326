"""What trainers ask of a sample.

Comes in: a sample as it would be written. Goes out: what is wrong with it, or nothing.

The rules of `messages` are those of OpenAI: the check in its cookbook ("Data preparation and analysis for chat model
fine-tuning"), the schema `FineTuneChatRequestInput` of its API, and the order that Chat Completions itself asks for.
The rules of `sharegpt` are those of LLaMA-Factory (its `data/README.md`, and `SharegptDatasetConverter`, which passes
over what breaks them); axolotl's `chat_template` takes that, too, once it is told the two roles that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_KEYS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "weight", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
_ASKS, _ANSWERS = ("human", "observation"), ("gpt", "function_call")


def fault_of_messages(sample: Any) -> str | None:
    """What is wrong with a sample for Chat Completions.

    Args:
        sample: The sample, as JSON values.

    Returns:
        The first thing that is; None where it is right.
    """
    return next(_wrong_in_messages(sample), None)


def fault_of_sharegpt(sample: Any) -> str | None:
    """What is wrong with a sample in ShareGPT's form; as `fault_of_messages`."""
    return next(_wrong_in_sharegpt(sample), None)


def _wrong_in_messages(sample: Any) -> Iterator[str]:
    if not isinstance(sample, dict) or not set(sample) <= {"messages", "tools", "parallel_tool_calls"}:
        yield "it is no object of messages and tools"
        return
    messages = sample.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "it has no messages"
        return
    for message in messages:
        yield from _wrong_in_message(message)
    yield from _wrong_in_order(messages)
    called = {call["function"]["name"] for message in messages for call in message.get("tool_calls", ())}
    offered = {tool["function"]["name"] for tool in sample.get("tools", ())}
    if called - offered:
        yield f"it calls what is none of its tools: {', '.join(sorted(called - offered))}"
    if messages[-1]["role"] != "assistant":
        yield "it does not end with a reply"


def _wrong_in_message(message: Any) -> Iterator[str]:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in _KEYS:
        yield f"there is no role {role!r}"
        return
    if extra := set(message) - _KEYS[role]:
        yield f"a message of {role} has no {', '.join(sorted(extra))}"
    content, calls = message.get("content"), message.get("tool_calls", [])
    if not (isinstance(content, str) and content) and not (calls and content in (None, "")):
        yield f"a message of {role} is empty"
    for call in calls:
        function = call.get("function", {})
        texts = call.get("id"), function.get("name"), function.get("arguments")
        if call.get("type") != "function" or not all(isinstance(text, str) for text in texts):
            yield "a call is none of a function"


def _wrong_in_order(messages: list[dict[str, Any]]) -> Iterator[str]:
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                yield "a result answers no call of the reply before it"
            open_calls.discard(message.get("tool_call_id", ""))
            continue
        if open_calls:
            yield "a call is not answered before the next message"
        open_calls = {call["id"] for call in message.get("tool_calls", ())}


def _wrong_in_sharegpt(sample: Any) -> Iterator[str]:
    turns = sample.get("conversations") if isinstance(sample, dict) else None
    if not isinstance(turns, list) or not set(sample) <= {"conversations", "system", "tools"}:
        yield "it is no object of conversations and tools"
        return
    if not all(isinstance(t, dict) and set(t) == {"from", "value"} and t["value"] for t in turns):
        yield "a turn is empty"
        return
    rest = turns[1:] if turns and turns[0]["from"] == "system" else turns
    if not rest or len(rest) % 2:
        yield "it does not end with a reply"
    for at, turn in enumerate(rest):
        if turn["from"] not in (_ANSWERS if at % 2 else _ASKS):
            yield "questions and replies do not take turns"
        elif turn["from"] == "function_call":
            calls = json.loads(turn["value"])
            for call in calls if isinstance(calls, list) else [calls]:
                if set(call) != {"name", "arguments"} or not isinstance(call["arguments"], dict):
                    yield "a call is none of a function"
    if any(turn["from"] == "function_call" for turn in rest) and not json.loads(sample.get("tools", "[]")):
        yield "it makes calls and says nothing of its tools"

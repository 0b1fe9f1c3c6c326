"""Calls: a name and JSON arguments, as another spelling of blocks and cancels.

Comes in: what a model wrote as a call, through the endpoint's tool calling or as JSON in text. Goes out: the
block, the cancel, or the fault that says what was wrong with it; and the JSON schemas of the calls.
"""

from __future__ import annotations

import json
import re
from typing import Any

from codeact_kernel.blocks import Block, Cancel, Fault
from codeact_kernel.dialogue.attributes import LANES, Desk
from codeact_kernel.dialogue.vocabulary import FROM_MODEL
from codeact_kernel.messages import ToolSchema

PAYLOADS = {"run_code": "code", "run_agent": "task"}
"""The argument that carries the payload."""

_IN_STRING = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_OUTSIDE = re.compile(r'[^"{}]*')
_HALF = re.compile("[\ud800-\udfff]")


class ObjectEnd:
    """Finds the end of a JSON object that comes in pieces, by its braces and strings alone."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, text: str, at: int = 0) -> int | None:
        """Take the next characters.

        Args:
            text: The characters.
            at: Where to begin in them.

        Returns:
            The index behind the object's last brace, or None while it is open.
        """
        if self._escaped and at < len(text):
            self._escaped, at = False, at + 1
        while True:
            span = (_IN_STRING if self._in_string else _OUTSIDE).match(text, at)
            at = span.end() if span else at
            if at >= len(text):
                return None
            mark, at = text[at], at + 1
            if mark == '"':
                self._in_string = not self._in_string
            elif mark == "\\":
                self._escaped = True
            else:
                self._depth += 1 if mark == "{" else -1
                if self._depth <= 0:
                    return at


def read_call(name: str, arguments: str | dict[str, Any], desk: Desk) -> Block | Cancel | Fault:
    """Read one call.

    Args:
        name: The function that is called.
        arguments: Its arguments, as JSON or as the object that JSON gave.
        desk: What makes the blocks of this reply.

    Returns:
        What was called for, or a fault of the kind "call" (no such function, no JSON, no payload),
        "attribute", "duplicate" or "empty".
    """
    if name not in FROM_MODEL:
        return Fault("call", f'Nothing ran: there is no function "{name}". Call {_listed(FROM_MODEL)}.')
    try:
        given = json.loads(arguments or "{}", strict=False) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError) as error:
        return Fault("call", f"{name} did not run: its arguments are no JSON ({str(error)[:100]}).")
    if not isinstance(given, dict):
        return Fault(
            "call", f"{name} did not run: its arguments are {json.dumps(given)[:40]}, not an object."
        )
    pairs = [(key, _whole(value)) for key, value in given.items() if value is not None]
    if name == "cancel":
        return desk.cancel(pairs)
    key = PAYLOADS[name]
    payload = dict(pairs).get(key)
    draft = desk.draft(name, [pair for pair in pairs if pair[0] != key])
    if isinstance(draft, Fault):
        return draft
    if not isinstance(payload, str):
        return Fault("call", f'{draft.label} did not run: it needs "{key}", which is a string.', draft.id)
    return desk.block(draft, payload)


def _whole(value: Any) -> Any:
    """JSON can spell half of a surrogate pair, which no UTF-8 can carry to a kernel."""
    return _HALF.sub("\ufffd", value) if isinstance(value, str) else value


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


_NAMES = {"type": "array", "items": {"type": "string"}}
_TIMING = {
    "timeout": _string("How long it may run: 500ms, 2s, 5m, 1h."),
    "heartbeat": _string("Report its new output this often while it runs: 5s, 1m."),
    "after": {**_NAMES, "description": "Ids to wait for; [] runs it side by side with the others."},
}


def schemas(*, agents: bool) -> tuple[ToolSchema, ...]:
    """What is offered to an endpoint's tool calling.

    Args:
        agents: Whether sub-agents can be started.
    """
    code = {
        "code": _string("Python for the IPython kernel. Only what it prints comes back."),
        "id": _string("A short name to refer to it by."),
        **_TIMING,
        "lane": {"type": "string", "enum": list(LANES), "description": "Leave out unless told to."},
    }
    agent = {
        "task": _string("What the sub-agent is to do, and what it is to hand back."),
        "name": _string("A short name to refer to it by."),
        "namespace": {**_NAMES, "description": "Names of your namespace that it gets a copy of."},
        "model": _string("Another model for it."),
        **_TIMING,
    }
    target = {"id": _string("The id of a running block, or the name of a running sub-agent.")}
    offered = [ToolSchema("run_code", "Run Python in your kernel, which keeps its variables.", _schema(code))]
    if agents:
        about = "Start a sub-agent with a kernel of its own. Its answer comes as a message."
        offered.append(ToolSchema("run_agent", about, _schema(agent)))
    return (*offered, ToolSchema("cancel", "Stop a running block or sub-agent.", _schema(target)))


def _schema(properties: dict[str, Any]) -> dict[str, Any]:
    """The first property is the one that is required."""
    first = next(iter(properties))
    return {"type": "object", "properties": properties, "required": [first], "additionalProperties": False}

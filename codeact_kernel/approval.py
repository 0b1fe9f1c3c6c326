"""What is asked before something happens, and what is answered.

Comes in: nothing. Goes out: `Request` and `Answer`, the joint `Approver` of whoever decides, and the classes of tools
by which rules and modes tell calls apart. And what of a request a person can edit, as text.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from codeact_kernel.blocks import AgentBlock, Block, CodeBlock

Door = Literal["block", "call"]
"""Where something is decided: before a block starts, or before a call of a tool is made."""
ToolClass = Literal["read", "write", "destructive", "network"]
"""What a call of a tool does: it only reads; it changes something; it changes what cannot be had back; it talks to
others than this machine."""
Mode = Literal["auto", "ask", "deny-writes", "rules"]
"""How decisions are made, where no rule says otherwise."""

CLASSES: tuple[ToolClass, ...] = ("read", "write", "destructive", "network")
MODES: tuple[Mode, ...] = ("auto", "ask", "deny-writes", "rules")


@dataclass(frozen=True, slots=True)
class Request:
    """Something that wants to happen, as whoever decides sees it. It is a copy: changing it changes nothing."""

    door: Door
    agent: str
    """Whose it is: "the agent", or a sub-agent's name."""
    block_id: str | None
    """The block that wants to start, or whose code calls; None where that is not known."""
    name: str
    """"run_code" or "run_agent" for a block; else the tool's full name."""
    why: str
    """Why somebody is asked, in words."""
    block: Block | None = None
    """The block that wants to start."""
    classes: tuple[ToolClass, ...] = ()
    """What the call does; empty for a block."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The call's arguments by name; of a block its code, or its task."""
    preview: str = ""
    """What the call would change, as a unified diff; empty where that is not known."""
    always: str = ""
    """What `Answer.always` would let pass for the rest of the run, in words."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision."""

    allowed: bool
    reason: str = ""
    """Why not, for the model to read."""
    always: bool = False
    """Whether what `Request.always` says passes for the rest of the run, without a question."""
    code: str | None = None
    """What a block runs instead of its code, or a sub-agent's task."""
    arguments: Mapping[str, Any] | None = None
    """All arguments of the call by name, instead of its own."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool that wants to be made."""

    call_id: str
    """That of its `ToolCalled`."""
    name: str
    """The tool's full name."""
    block_id: str | None
    """The block whose code calls, where that is known."""
    classes: tuple[ToolClass, ...]
    """What the call does; empty where nobody has said it."""
    arguments: Mapping[str, Any]
    """By name, checked; the call is made with these very ones."""
    preview: Callable[[], Awaitable[str]] | None = None
    """Gives what it would change, as a diff; does not raise."""
    folder: str = ""
    """From where its paths count; empty for the agent's workspace."""


@dataclass(frozen=True, slots=True)
class Passed:
    """How a call may be made."""

    arguments: Mapping[str, Any] | None = None
    """Its arguments, all of them, where somebody has changed them."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where its paths have led when it was judged: by the path as it was given, the real one. A tool that opens one
    has to come to the same place."""


CallGate = Callable[[Call], "Passed | Awaitable[Passed]"]
"""Decides about a call: at once, or in its own time. Contract: raises a `ToolError`, whose text the model reads, where
the call is not to be made; may be cancelled."""

YES = Answer(True)
NO = Answer(False)
ALWAYS = Answer(True, always=True)

Approver = Callable[[Request], Answer | bool | Awaitable[Answer | bool]]
"""Decides. Contract: called with one request at a time, in the loop's thread where it is async, else in a thread of its
own; cancelled when nobody waits for its answer any more. What it raises counts as a no."""


def text_of(request: Request) -> tuple[str, str]:
    """What a person edits: (text, ending of its file).

    Args:
        request: The request.

    Raises:
        ValueError: If it holds what is no text.
    """
    match request.block:
        case CodeBlock(code=code):
            return code, ".py"
        case AgentBlock(task=task):
            return task, ".txt"
    try:
        return json.dumps(dict(request.arguments), ensure_ascii=False, indent=2), ".json"
    except (TypeError, ValueError) as error:
        raise ValueError("its arguments hold what is no text, so they cannot be edited") from error


def with_text(request: Request, text: str) -> Request:
    """The request with what a person has written.

    Args:
        request: The request.
        text: What `text_of` gave, edited.

    Raises:
        ValueError: If arguments are no JSON object any more.
    """
    match request.block:
        case CodeBlock():
            return replace(request, block=replace(request.block, code=text), arguments={"code": text})
        case AgentBlock():
            return replace(request, block=replace(request.block, task=text))
    arguments = json.loads(text)
    if not isinstance(arguments, dict):
        raise ValueError("arguments are a JSON object")
    return replace(request, arguments=arguments, preview="")


def changed_answer(answer: Answer, before: Request, now: Request) -> Answer:
    """An answer to what a person has edited.

    Args:
        answer: The answer.
        before: What was asked.
        now: What was made of it.
    """
    if not answer.allowed or now is before:
        return answer
    if now.block is None:
        return replace(answer, arguments=dict(now.arguments))
    return replace(answer, code=now.block.code if isinstance(now.block, CodeBlock) else now.block.task)

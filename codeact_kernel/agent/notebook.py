"""Approvals in a notebook, or wherever `input()` reaches a person.

Comes in: requests of the gate. Goes out: what is asked as printed text, in which nothing hides, and the answers that a
person types.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from codeact_kernel.approval import Answer, Request
from codeact_kernel.blocks import AgentBlock, CodeBlock
from codeact_kernel.controls import visible

KEYS = "y runs it, n does not (n and a reason: the model reads it)"


def approve_in_notebook(request: Request) -> Answer:
    """Ask by `input()`; for `Agent(approver=approve_in_notebook)`.

    It is called in a thread, so that blocks and their outputs go on meanwhile. In JupyterLab the answer is typed below
    the cell that runs the agent.

    Args:
        request: What wants to happen.

    Returns:
        The answer. Where nobody can type, because the frontend has no input, an error comes out, which is a no.
    """
    print("\n".join(_told(request)), flush=True)
    always = f", a always: {visible(request.always)}" if request.always else ""
    while True:
        word, _, rest = input(f"{KEYS}{always} > ").strip().partition(" ")
        match word.lower():
            case "y" | "yes" if not rest:
                return Answer(True)
            case "a" | "always" if not rest and request.always:
                return Answer(True, always=True)
            case "n" | "no":
                return Answer(False, rest.strip())


def _told(request: Request) -> Iterator[str]:
    whose = "" if request.agent == "the agent" else f"{visible(request.agent)}: "
    block = f"block {visible(request.block_id)}" if request.block_id else "code of no block"
    what = "run" if request.door == "block" else f"call {visible(request.name)}"
    kinds = f" ({', '.join(request.classes)})" if request.classes else ""
    yield f"? {whose}{block} wants to {what}{kinds}"
    yield f"  {visible(request.why)}"
    match request.block:
        case CodeBlock(code=text) | AgentBlock(task=text):
            yield from _indented(text)
        case _:
            for name, value in request.arguments.items():
                yield from _indented(f"{name} = {_plain(value)}")
    yield from _indented(request.preview)


def _indented(text: str) -> Iterator[str]:
    if text:
        yield from (f"    {line}" for line in visible(text).split("\n"))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)

"""Approvals in a notebook, or wherever `input()` reaches a person.

Comes in: requests of the gate. Goes out: what is asked as printed text, in which nothing hides, and the answers that a
person types.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from codeact_kernel.approval import Answer, Request, changed_answer, text_of, with_text
from codeact_kernel.blocks import AgentBlock, CodeBlock
from codeact_kernel.controls import visible
from codeact_kernel.runfiles import open_plain

KEYS = "y runs it, n does not (n and a reason: the model reads it), e edits"


def approve_in_notebook(request: Request) -> Answer:
    """Ask by `input()`; for `Agent(approver=approve_in_notebook)`.

    It is called in a thread, so that blocks and their outputs go on meanwhile. In JupyterLab the answer is typed below
    the cell that runs the agent. What is to be edited lies meanwhile in a file beside the notebook: `input()` has one
    line, and the frontend has an editor.

    Args:
        request: What wants to happen.

    Returns:
        The answer. Where nobody can type, because the frontend has no input, an error comes out, which is a no.
    """
    now = request
    print("\n".join(told_in_notebook(now)), flush=True)
    always = f", a always: {visible(request.always)}" if request.always else ""
    while True:
        word, _, rest = input(f"{KEYS}{always} > ").strip().partition(" ")
        match word.lower():
            case "y" | "yes" if not rest:
                return changed_answer(Answer(True), request, now)
            case "a" | "always" if not rest and request.always:
                return changed_answer(Answer(True, always=True), request, now)
            case "n" | "no":
                return Answer(False, rest.strip())
            case "e" | "edit" if not rest:
                now = _edited(now)
                print("\n".join(told_in_notebook(now)), flush=True)


def _edited(request: Request) -> Request:
    """Let a person edit what is asked in a file; gives what it is by then."""
    try:
        text, ending = text_of(request)
        fd, name = tempfile.mkstemp(ending, "codeact-edit-", Path.cwd())
    except (ValueError, OSError) as error:
        print(f"It cannot be edited: {error}", flush=True)
        return request
    file = Path(name)
    try:
        with open(fd, "w", encoding="utf-8", newline="") as made:
            made.write(text)
        input(f"Edit {file.name}, save it, and press Enter here > ")
        # Anything may lie there by now: blocks can write to that folder, too.
        with open_plain(file, follow=False) as saved:
            edited = saved.read().decode("utf-8")
        # Editors end the last line, whether or not it had an end.
        edited = edited if text.endswith("\n") else edited.removesuffix("\n")
        return request if edited == text else with_text(request, edited)
    except (ValueError, OSError) as error:
        print(f"It is as it was: {error}", flush=True)
        return request
    finally:
        with suppress(OSError):
            file.unlink()


def told_in_notebook(request: Request) -> Iterator[str]:
    """Write what is asked, as plain lines in which nothing hides.

    Args:
        request: The request.
    """
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

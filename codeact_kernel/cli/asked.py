"""What a person is asked to approve, and what they say.

Comes in: requests of the gate, typed lines. Goes out: what is shown, with nothing hidden in it: what a terminal would
obey or not show is written out, and what is too long to be shown at once is counted and can be seen; answers.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.syntax import Syntax
from rich.text import Text

from codeact_kernel.approval import Answer, Request
from codeact_kernel.blocks import AgentBlock, CodeBlock
from codeact_kernel.cli.streams import masked
from codeact_kernel.controls import visible

LINES = 60
"""Lines of a code, a diff or an argument that are shown at once; ours, about what a screen holds."""
LONGEST = 4000
"""Characters of one line that are shown at once; ours, more than any that was written by hand."""
_LAST = 15
"""How many of them are its last ones."""
_BRIEF = 60
"""Characters of an argument that is shown though the diff shows it, too."""
_IN_DIFF = ("content", "old", "new")
"""Arguments that a diff shows."""
KEYS = "y runs it, n does not (n and a reason: the model reads it), a always, e edits, v shows all of it"


@dataclass(frozen=True, slots=True)
class Said:
    """What a line says to a request."""

    answer: Answer | None = None
    """The answer; None where it is none."""
    edits: bool = False
    shows: bool = False


def read_line(line: str | None, request: Request) -> Said:
    """Read what a person has typed.

    Args:
        line: The line; None for none, which is a no.
        request: What was asked.
    """
    if line is None:
        return Said(Answer(False))
    word, _, rest = line.strip().partition(" ")
    match word.lower():
        case "y" | "yes" if not rest:
            return Said(Answer(True))
        case "n" | "no":
            return Said(Answer(False, rest.strip()))
        case "a" | "always" if not rest and request.always:
            return Said(Answer(True, always=True))
        case "e" | "edit" if not rest:
            return Said(edits=True)
        case "v" | "view" if not rest:
            return Said(shows=True)
        case _:
            return Said()


def told_request(request: Request, *, whole: bool = False) -> list[RenderableType]:
    """Write what is asked.

    Args:
        request: The request.
        whole: Whether all of it is shown, however long.
    """
    request = masked(request)
    whose = "" if request.agent == "the agent" else f"{visible(request.agent)}: "
    block = f"block {visible(request.block_id)}" if request.block_id else "code of no block"
    if request.door == "block":
        head = f"{whose}{block} wants to run ({request.name})"
    else:
        head = f"{whose}{block} wants to call {visible(request.name)} ({', '.join(request.classes)})"
    lines: list[RenderableType] = [
        Text(f"? {head}", style="bold yellow"),
        Text(f"  {visible(request.why)}", style="dim"),
    ]
    return [*lines, *_body(request, whole)]


def told_keys(request: Request) -> Text:
    """Write what may be answered.

    Args:
        request: The request.
    """
    request = masked(request)
    keys = KEYS if request.always else KEYS.replace("a always, ", "")
    always = f"\n  always: {visible(request.always)}, for the rest of this run" if request.always else ""
    return Text(f"{keys}.{always}", style="dim")


def _body(request: Request, whole: bool) -> list[RenderableType]:
    match request.block:
        case CodeBlock(code=code):
            return _cut(code, "python", whole)
        case AgentBlock(task=task):
            named = {name: value for name, value in request.arguments.items() if name != "task"}
            return [*_cut(task, "text", whole), *_arguments(named, whole, ())]
    if not request.preview:
        return _arguments(request.arguments, whole, ())
    return [
        *_arguments(request.arguments, whole, () if whole else _IN_DIFF),
        *_cut(request.preview, "diff", whole),
    ]


def _arguments(arguments: Mapping[str, Any], whole: bool, brief: Iterable[str]) -> list[RenderableType]:
    made: list[RenderableType] = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else _plain(value)
        label = f"{visible(name)} = "
        if name in brief and len(text) > _BRIEF:
            made.append(Text(f"  {label}{len(text):,} characters, which the diff shows", style="dim"))
        elif "\n" in text:
            made += [Text(f"  {label}", style="bold"), *_cut(text, "text", whole)]
        else:
            shown = visible(text if whole else _short(text)).expandtabs(4)
            made.append(Text.assemble((f"  {label}", "bold"), shown, overflow="fold"))
    return made


def _cut(text: str, language: str, whole: bool) -> list[RenderableType]:
    """A text with all its lines, or the first and the last ones with a count of the others. Long lines are folded."""
    lines = text.split("\n") if whole else [*map(_short, text.split("\n"))]
    left = len(lines) - LINES
    if whole or left <= 0:
        return [_highlighted(lines, language)]
    return [
        _highlighted(lines[: LINES - _LAST], language),
        Text(f"  … {left:,} more line{'s'[: left > 1]} here, not shown: v shows them", style="bold red"),
        _highlighted(lines[-_LAST:], language),
    ]


def _short(line: str) -> str:
    left = len(line) - LONGEST
    return line if left <= 0 else f"{line[:LONGEST]}… {left:,} more characters here, not shown: v shows them"


def _highlighted(lines: list[str], language: str) -> Text:
    text = "\n".join(f"  {line}" for line in visible("\n".join(lines)).expandtabs(4).split("\n"))
    if language == "text":
        return Text(text, overflow="fold", no_wrap=False)
    made = Syntax("", language, theme="ansi_dark", background_color="default").highlight(text)
    # The highlighter drops empty lines at the beginning, and what is shown has to be what is there.
    made = made if made.plain.rstrip("\n") == text.rstrip("\n") else Text(text)
    made.rstrip()
    made.overflow, made.no_wrap = "fold", False
    return made


def _plain(value: Any) -> str:
    try:
        return json.dumps(
            value, ensure_ascii=False, indent=1 if isinstance(value, dict | list) and value else None
        )
    except (TypeError, ValueError):
        return repr(value)


# -- editing ----------------------------------------------------------------------------------------------


def edit(text: str, ending: str) -> str:
    """Let a person edit a text in their editor; blocks until it is closed.

    Args:
        text: The text.
        ending: Of its file's name.

    Raises:
        ValueError: If there is no editor, or it fails.
    """
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or shutil.which("nano") or shutil.which("vi")
    if not named:
        raise ValueError("there is no editor: set EDITOR")
    with tempfile.TemporaryDirectory(prefix="codeact-") as folder:
        path = Path(folder) / f"edit{ending}"
        path.write_text(text, "utf-8")
        try:
            done = subprocess.run([*shlex.split(named), str(path)], check=False)
            edited = path.read_text("utf-8")
        except (OSError, ValueError) as error:
            raise ValueError(f"the editor {named} failed: {error}") from error
    if done.returncode:
        raise ValueError(f"the editor {named} ended with {done.returncode}, so nothing was changed")
    # Editors end the last line, whether or not it had an end.
    return edited if text.endswith("\n") else edited.removesuffix("\n")

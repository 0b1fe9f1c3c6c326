"""The system prompt: the parts of `prompt.md` that hold for a run.

Comes in: what is there (the kernel, the functions, the names). Goes out: the prompt, and two example turns.
The prompt says only what is true of this run: no sub-agent is mentioned where none can be started, and no
block runs side by side in a kernel that takes one at a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Literal

from codeact_kernel.blocks import format_duration
from codeact_kernel.controls import plain
from codeact_kernel.dialogue.shorten import one_line

Protocol = Literal["tags", "tools", "json"]

_PART = re.compile(r"<!-- part: (\w+) -->\n")
_LINE = 200
"""Characters of a function's or a name's line. They may come from foreign servers, and every call pays
them."""
_GROUP = 4000
"""Characters of a group's line; who fills it in has a budget."""


@dataclass(frozen=True, slots=True)
class FunctionLine:
    """A function that the model can call, as introspection shows it."""

    signature: str
    """Name, parameters and what it returns: `fetch(url: str) -> str`."""
    summary: str = ""
    """The first line of its docstring."""
    awaited: bool = False
    """Whether its result has to be awaited."""


@dataclass(frozen=True, slots=True)
class Example:
    """A task that takes one block."""

    task: str
    code: str
    output: str
    answer: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run is like, as far as the model has to know it."""

    kernel: str = "Python"
    """Which kernel it is, in words ("Python 3.11.7, ipykernel 7.4.0")."""
    directory: str = "."
    functions: tuple[FunctionLine, ...] = ()
    groups: tuple[tuple[str, str], ...] = ()
    """Groups of further functions, each with what it holds."""
    names: tuple[tuple[str, str], ...] = ()
    """Names that are defined already, each with a line that says what it is."""
    own_kernel: bool = True
    """Whether blocks run side by side and `self` is there; a kernel that is not ours has neither."""
    timeout: float | None = 1800.0
    """Seconds after which a block without a timeout is interrupted; None for never."""
    agents: bool = False
    """Whether sub-agents can be started."""
    is_sub: bool = False
    """Whether another agent has started this one."""
    walls: str = ""
    """What code in the kernel cannot do; empty for nothing to say."""
    limits: str = ""
    """What the run may use; empty for nothing to say."""
    more: str = ""
    """What the user adds to the prompt."""


def system_prompt(around: Surroundings, protocol: Protocol = "tags") -> str:
    """Write the system prompt.

    Args:
        around: What is true of this run.
        protocol: How blocks travel.
    """
    parts = _parts()
    functions = [_line(f"{'await ' if f.awaited else ''}{f.signature}", f.summary) for f in around.functions]
    groups = [_line(name, what, _GROUP) for name, what in around.groups]
    names = [_line(name, what) for name, what in around.names]
    agents = "agents_tags" if protocol == "tags" else "agents_calls"
    chosen = [
        parts[protocol],
        parts[agents] if around.agents else "",
        parts["rules"],
        parts["sub"] if around.is_sub else "",
        parts["place"],
        parts["functions"] if functions else "",
        parts["groups"] if groups else "",
        parts["names"] if names else "",
    ]
    words = {
        "kernel": one_line(plain(around.kernel), _LINE),
        "timeout": "no limit" if around.timeout is None else format_duration(around.timeout),
        "or_self": parts["self_cancel"] if around.own_kernel else "",
        "self": parts["self_more"] + "\n" if around.own_kernel else "",
        "whole": parts["self_whole"] if around.own_kernel else "",
        "knowledge": parts["self_knowledge"] if around.own_kernel else "",
        "order": parts["side_by_side" if around.own_kernel else "one_at_a_time"],
        "walls": f"\n{one_line(plain(around.walls), _GROUP)}" if around.walls else "",
        "limits": f"\n{around.limits}" if around.limits else "",
        "directory": one_line(plain(around.directory), _LINE),
        "functions": "\n".join(functions),
        "groups": "\n".join(groups),
        "names": "\n".join(names),
    }
    told = [Template(part).substitute(words).strip() for part in chosen if part]
    return "\n\n".join([*told, *filter(None, [around.more.strip()])])


def example_turns() -> tuple[Example, ...]:
    """The turns that show a small model how a task goes; a large one needs none."""
    parts = _parts()
    return tuple(Example(*parts[name].split("\n---\n")) for name in ("example_1", "example_2"))


def _line(name: str, what: str, most: int = _LINE) -> str:
    """One line, whatever its author wrote: a dash begins it, so no tag does."""
    return f"- {one_line(plain(': '.join(filter(None, (name, what)))), most)}"


@cache
def _parts() -> dict[str, str]:
    text = files(__package__).joinpath("prompt.md").read_text(encoding="utf-8")
    _, *found = _PART.split(text)
    return {name: part.strip() for name, part in zip(found[::2], found[1::2], strict=True)}

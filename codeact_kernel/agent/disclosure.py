"""How much a prompt tells of the tools, and how much of them is left to be asked for.

Comes in: functions, sets of functions, and what they may take of the prompt. Goes out: a line for each function; where
that is too much, names by group, as many as there is room for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from codeact_kernel.dialogue import FunctionLine
from codeact_kernel.tools import Tool, Toolset

CHARACTERS = 3
"""Characters of a token, in lists of names: 3.4 for those of well-known MCP servers with o200k_base; measured."""
OWN = "functions"
"""What bare functions are called where they are too many for a line each."""

Disclosed = tuple[tuple[FunctionLine, ...], tuple[tuple[str, str], ...]]
"""Lines of functions; and groups, each with what it holds."""


def function_lines(tools: Iterable[Tool]) -> tuple[FunctionLine, ...]:
    """One line a tool.

    Args:
        tools: The tools.
    """
    return tuple(
        FunctionLine(f"{t.group + '.' if t.group else ''}{t.name}{t.signature}", t.summary, t.is_async)
        for t in tools
    )


def disclose(tools: Sequence[Tool], sets: Sequence[Toolset], tokens: int) -> Disclosed:
    """Choose what the prompt tells.

    Args:
        tools: The functions with bare names.
        sets: The sets of functions.
        tokens: About what this may take.

    Returns:
        The lines, and the groups. All functions have a line where that fits; else those with bare names do if they
        take half of it at the most.
    """
    room = tokens * CHARACTERS
    known = {of_set: of_set.known() for of_set in sets}
    lines = function_lines(tools)
    everything = [
        *lines,
        *(line for of_set in known.values() for line in function_lines((of_set or {}).values())),
    ]
    if None not in known.values() and _length(everything) <= room:
        return tuple(everything), ()
    groups: dict[str, Mapping[str, Tool] | None] = {}
    if _length(lines) > room / (2 if sets else 1):
        groups[OWN], lines = {tool.name: tool for tool in tools}, ()
    groups |= {of_set.name: tools for of_set, tools in known.items()}
    about = {of_set.name: of_set.about for of_set in sets}
    each = (room - _length(lines)) // max(1, len(groups))
    return lines, tuple(
        (name, _told(each - len(name), about.get(name, ""), of)) for name, of in groups.items()
    )


def _length(lines: Iterable[FunctionLine]) -> int:
    return sum(len(line.signature) + len(line.summary) + 5 for line in lines)


def _told(room: int, about: str, tools: Mapping[str, Tool] | None) -> str:
    """A group in about so many characters: how many functions it has, and the names for which there is room."""
    if tools is None:
        return about[:room] if about else "not asked yet"
    shown, left = [], room - 20
    for name in tools:
        left -= len(name) + 2
        if left < 0:
            break
        shown.append(name)
    more = len(tools) - len(shown)
    if not shown:
        return f"{len(tools)} functions{': ' + about[: room - 20] if about and room > 40 else ''}"
    return ", ".join(shown) + (f", and {more} more" if more else "")

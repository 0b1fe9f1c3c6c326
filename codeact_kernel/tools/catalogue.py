"""All tools that blocks can call, and how code finds one among many.

Comes in: tools, and sets of tools that may have to be started first. Goes out: the tool of a name, and answers to
`tools.list()`, `tools.search(…)` and `tools.describe(…)`: a prompt need not hold what is read only when it is wanted.
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from codeact_kernel.errors import ConfigError, ToolError
from codeact_kernel.tools.tool import Tool
from codeact_kernel.tools.toolset import Toolset

MOST_FOUND = 20
"""Tools that a search gives."""
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Catalogue:
    """The tools of one agent.

    Args:
        tools: Those that are called by their bare names.
        sets: Sets of tools that are called by the set's name and their own.

    Raises:
        ConfigError: If two sets have one name.
    """

    def __init__(self, tools: Mapping[str, Tool], sets: Sequence[Toolset] = ()) -> None:
        self.tools = tools
        self.sets = {toolset.name: toolset for toolset in sets}
        if len(self.sets) < len(sets):
            raise ConfigError(f"two sets of tools have one name: {', '.join(s.name for s in sets)}")

    @property
    def methods(self) -> dict[str, Callable[..., Any]]:
        """What `tools.…` calls in a block, by full name."""
        return {
            "tools.list": self.lines,
            "tools.search": self.search,
            "tools.describe": self.describe,
            "tools.group": self.group,
        }

    async def find(self, name: str) -> Tool:
        """The tool of a name.

        Args:
            name: "search", "mcp.github.search_issues" or "mcp:github:search_issues".

        Raises:
            ToolError: If there is none, or if its set cannot be started.
        """
        dotted = name.replace(":", ".")
        if (tool := self.tools.get(dotted)) is not None:
            return tool
        group, _, own = dotted.rpartition(".")
        if group in self.sets:
            of_set = await self.sets[group].tools()
            if own in of_set:
                return of_set[own]
            raise ToolError(f"{group} has no tool {own!r}{_near(own, of_set)}; see tools.list({group!r})")
        near = _near(name, [*self.tools, *self.sets])
        raise ToolError(f"there is no tool {name!r}{near}; tools.list() tells what there is")

    async def lines(self, group: str | None = None) -> list[str]:
        """What there is.

        Args:
            group: A set's name; None for all.

        Returns:
            The group's tools, a line each; without a group the bare tools, and each set with what it is for.
        """
        if group is not None:
            return [line(tool) for tool in (await self._set(group).tools()).values()]
        return [*map(line, self.tools.values()), *map(_set_line, self.sets.values())]

    async def search(self, words: str, most: int = MOST_FOUND) -> list[str]:
        """Find tools by what they are for.

        Args:
            words: What is looked for.
            most: How many are enough.

        Returns:
            A line for each tool, the best first. A set that cannot be started has a line that says so.
        """
        wanted = _words(str(words))
        names = list(self.sets)
        started = await asyncio.gather(*(self.sets[name].tools() for name in names), return_exceptions=True)
        found, failed = [*self.tools.values()], []
        for name, result in zip(names, started, strict=True):
            if isinstance(result, Exception):
                failed.append(f"({name} could not be searched: {result})")
            elif isinstance(result, BaseException):
                raise result
            else:
                found += result.values()
        ranked = sorted(((_score(tool, wanted), tool) for tool in found), key=lambda pair: -pair[0])
        lines = [line(tool) for score, tool in ranked if score > 0][: max(1, most)]
        nothing = [] if lines else [f"(no tool is about {words!r}; tools.list() tells what there is)"]
        return [*lines, *nothing, *failed]

    async def describe(self, name: str) -> str:
        """How a tool is called, as Python: types, defaults and docstring.

        Args:
            name: As in `find`; or a set's name, for all its tools.

        Raises:
            ToolError: If there is no such tool.
        """
        dotted = name.replace(":", ".")
        if dotted in self.sets:
            return "\n\n".join(tool.definition for tool in (await self.sets[dotted].tools()).values())
        return (await self.find(name)).definition

    async def group(self, name: str, fresh: bool = False) -> list[dict[str, Any]]:
        """What the kernel has to know of a set's tools.

        Args:
            name: The set's name.
            fresh: Whether it is asked, also where its tools are known from before.
        """
        toolset = self._set(name)
        known = None if fresh else toolset.known()
        return [tool.describe() for tool in (await toolset.tools() if known is None else known).values()]

    def describe_all(self) -> list[dict[str, Any]]:
        """What the kernel has to know at its start: the bare tools, and the names of the sets."""
        return [*(tool.describe() for tool in self.tools.values()), *({"group": name} for name in self.sets)]

    def _set(self, name: str) -> Toolset:
        dotted = name.replace(":", ".")
        if dotted not in self.sets:
            raise ToolError(
                f"there is no group {name!r}{_near(name, self.sets)}; tools.list() tells what there is"
            )
        return self.sets[dotted]


def line(tool: Tool) -> str:
    """A tool in one line: how it is called, and what it does.

    Args:
        tool: The tool.
    """
    called = f"{tool.group}.{tool.name}" if tool.group else tool.name
    head = f"{'await ' if tool.is_async else ''}{called}{tool.signature}"
    return f"{head}: {tool.summary}" if tool.summary else head


def _set_line(toolset: Toolset) -> str:
    known = toolset.known()
    size = "" if known is None else f", {len(known)} tools"
    about = f": {toolset.about}" if toolset.about else ""
    return f"{toolset.name}{size}{about} (tools.list({toolset.name!r}) lists them)"


def _near(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, [*names], 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(_HUMP.sub(" ", text))]


def _score(tool: Tool, wanted: Sequence[str]) -> float:
    """How well a tool fits. Its name counts more than its group, that more than its first line, that than the rest."""
    places = ((8.0, tool.name), (4.0, tool.group), (3.0, tool.summary), (1.0, f"{tool.signature} {tool.doc}"))
    weighed = [(weight, set(_words(text))) for weight, text in places]
    return sum(max((w * _fit(word, words) for w, words in weighed), default=0.0) for word in wanted)


def _fit(word: str, words: set[str]) -> float:
    if word in words:
        return 1.0
    # Forms of one word share their beginning: calendar and calendars, create and creates.
    long = [other for other in words if len(other) > 3 and len(word) > 3]
    return 0.7 if any(other.startswith(word) or word.startswith(other) for other in long) else 0.0

"""What code has of its tools besides their names: `tools`, groups of tools, and results that are no exceptions.

Comes in: the bridge. Goes out: `Toolbox`, which finds and describes tools; `Group`, whose tools are asked for when one
of them is first used; `ToolResult`.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codeact_kernel.inkernel.bridge import Bridge, ToolError

TOOL = "__codeact_tool__"
"""The attribute that holds the name of a tool, of a form of it or of a group: "search", "search.try_",
"mcp.github". They travel to other kernels by it."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call: `ok`, and the `value` or the `error`, a text."""

    ok: bool
    value: Any = None
    error: str | None = None

    def __bool__(self) -> bool:
        return self.ok


class Lines(list[str]):
    """A list of lines that prints as lines."""

    def __str__(self) -> str:
        return "\n".join(self)


def tried(call: Callable[..., Any]) -> Callable[..., ToolResult]:
    """A function that calls another, and hands a failure back instead of raising it.

    Args:
        call: The function of a tool.
    """

    def try_(*args: Any, **kwargs: Any) -> ToolResult:
        try:
            return ToolResult(True, call(*args, **kwargs))
        except (ToolError, TypeError) as error:
            return ToolResult(False, error=str(error))

    return try_


def atried(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[ToolResult]]:
    """As `tried`, of an async function."""

    async def try_(*args: Any, **kwargs: Any) -> ToolResult:
        try:
            return ToolResult(True, await call(*args, **kwargs))
        except (ToolError, TypeError) as error:
            return ToolResult(False, error=str(error))

    return try_


class Group:
    """Tools under one name.

    Args:
        name: The name, as code writes it: "mcp.github".
        bridge: Asks the host for them.
        make: Makes the function of a tool.
    """

    def __init__(self, name: str, bridge: Bridge, make: Callable[[dict[str, Any]], Any]) -> None:
        setattr(self, TOOL, name)
        self._bridge = bridge
        self._make = make
        self._is_set = False
        self._parts: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        # Only what is not there yet comes here. Tools have no such names, and IPython asks for many of them.
        if name.startswith("_"):
            raise AttributeError(name)
        for fresh in (False, True):
            if name not in self._parts and self._is_set:
                self._ask(fresh)
        if name in self._parts:
            return self._parts[name]
        near = difflib.get_close_matches(name, self._parts, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        path = getattr(self, TOOL)
        raise AttributeError(f"{path} has no {name!r}; tools.list({path!r}) tells what it has{hint}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._parts]

    def __repr__(self) -> str:
        path = getattr(self, TOOL)
        return f"<tools of {path}: tools.list({path!r}) lists them, tools.search(…) finds some>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(f"{getattr(self, TOOL)} belongs to the agent in whose kernel it is")

    # Nothing here has a name that a tool could have: it would stand before the tool.

    def _hold(self, path: Sequence[str]) -> None:
        """Let this group hold another one, by the names that lead to it from here; none if it is this one."""
        if not path:
            self._is_set = True
            return
        if path[0] not in self._parts:
            self._parts[path[0]] = Group(f"{getattr(self, TOOL)}.{path[0]}", self._bridge, self._make)
        self._parts[path[0]]._hold(path[1:])

    def _ask(self, fresh: bool) -> None:
        found = self._bridge.call("tools.group", (getattr(self, TOOL), fresh))
        self._parts |= {tool["name"]: self._make(tool) for tool in found}


def hold_group(names: dict[str, Any], path: str, make: Callable[[str], Group]) -> None:
    """Put a group among names, inside the groups that its name tells.

    Args:
        names: The names.
        path: "mcp.github".
        make: Makes the first of them, where it is not there.
    """
    first, *rest = path.split(".")
    if first not in names:
        names[first] = make(first)
    names[first]._hold(rest)


class Toolbox:
    """The tools of this agent.

    `tools.list()` tells what there is, `tools.search("calendar")` finds some, `tools.describe(name)` tells how one is
    called; `tools.call(name, arguments)` calls one, and hands a failure back instead of raising it.

    Args:
        bridge: Asks the host.
        names: Gives the value of a name of the namespace.
    """

    def __init__(self, bridge: Bridge, names: Mapping[str, Any]) -> None:
        setattr(self, TOOL, "tools")
        self._bridge = bridge
        self._names = names

    def list(self, group: str | None = None) -> Lines:
        """What there is: functions, and groups of functions; of a group all its functions, a line each.

        Args:
            group: A group, as "mcp.github"; None for all.

        Returns:
            A list of lines, which prints as lines.
        """
        return Lines(self._bridge.call("tools.list", (_name_of(group),)))

    def search(self, words: str, most: int = 20) -> Lines:
        """Find functions by what they are for: a line each, the best first.

        Args:
            words: What is looked for: "calendar", "create an event".
            most: How many are enough.

        Returns:
            A list of lines, which prints as lines.
        """
        return Lines(self._bridge.call("tools.search", (words, most)))

    def describe(self, tool: Any) -> str:
        """How a function is called: a definition with types and docstring, as Python.

        Args:
            tool: Its name, as "mcp.github.search_issues", or itself; or a group, for all its functions.
        """
        return str(self._bridge.call("tools.describe", (_name_of(tool),)))

    def call(self, tool: Any, arguments: Mapping[str, Any] | Sequence[Any] = ()) -> Any:
        """Call a function, and hand a failure back instead of raising it.

        Args:
            tool: Its name, as "mcp.github.search_issues" or "mcp:github:search_issues", or itself.
            arguments: By name, or in order.

        Returns:
            A result with `.ok`, `.value` and `.error`; of an async function, what to await for it.

        Raises:
            ToolError: If there is no such function.
        """
        function = self._find(tool)
        if isinstance(arguments, Mapping):
            return function.try_(**arguments)
        return function.try_(*([arguments] if isinstance(arguments, str) else arguments))

    def _find(self, tool: Any) -> Any:
        path = str(_name_of(tool)).replace(":", ".")
        try:
            found = lookup(self._names, path)
        except LookupError:
            found = None
        if not hasattr(found, "try_"):
            raise ToolError(
                f"there is no tool {path!r}; tools.search(…) finds some, tools.list() tells what there is"
            )
        return found

    def __repr__(self) -> str:
        return "<the tools of this agent; help(tools) tells how to find one>"


def _name_of(tool: Any) -> Any:
    name = getattr(tool, TOOL, None)
    return tool if name is None else base_name(name)


def base_name(name: str) -> str:
    """The name of a tool of which this names a form.

    Args:
        name: As in `TOOL`: "search", "search.try_".
    """
    return name.removesuffix(".try_").removesuffix(".aio")


def lookup(names: Mapping[str, Any], path: str) -> Any:
    """The tool, or the group, of a name.

    Args:
        names: The namespace.
        path: As in `TOOL`.

    Raises:
        LookupError: If there is none.
    """
    first, *rest = path.split(".")
    try:
        found = names[first]
        for name in rest:
            found = getattr(found, name)
    except (KeyError, AttributeError):
        raise LookupError(f"{path} is a tool, and is not there where this arrives") from None
    return found

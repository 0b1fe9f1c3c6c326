"""A host function as a tool: what the kernel and the prompt need to know of it.

Comes in: plain Python functions. Goes out: `Tool`, with the signature and docstring that blocks see.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from codeact_kernel.approval import CLASSES, ToolClass
from codeact_kernel.errors import ConfigError

RESERVED = frozenset(
    {"self", "tools", "mcp", "AgentError", "ToolError", "In", "Out", "get_ipython", "exit", "quit"}
)
"""Names that the namespace needs for itself."""

Preview = Callable[[Mapping[str, Any]], str]
"""Gets the arguments of a call by name; plain, and called in a thread."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of the host that blocks can call by its name."""

    name: str
    function: Callable[..., Any]
    signature: str
    """As `str(inspect.signature(f))` writes it, with types by their plain names."""
    doc: str
    is_async: bool
    files: tuple[str, ...] = ()
    """Parameters whose values are files: the kernel reads them, and a call holds {"name", "data", "pages"} of each."""
    group: str = ""
    """The group it belongs to, as code writes it: "mcp.github"; empty for one that is called by its bare name."""
    full_name: str = ""
    """Its name everywhere: "mcp:github:search_issues"; its bare name where it has no group."""
    stub: str = ""
    """What `tools.describe` shows: a definition with types and docstring, as Python; empty to make it of the rest."""
    classes: tuple[ToolClass, ...] = ()
    """What a call does; empty where nobody has said it."""
    preview: Preview | None = None
    """Says what a call would change, for whoever decides about it; None where nothing can."""
    limit: int | None = None
    """The most calls of it in a run; None for no limit."""
    folder: str = ""
    """The folder from which its paths count; empty for the agent's workspace."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, unchecked, as code of the host would."""
        return self.function(*args, **kwargs)

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return self.doc.strip().partition("\n")[0]

    @property
    def writes(self) -> bool:
        """Whether it says that a call changes something; a dry run makes no such call."""
        return "write" in self.classes or "destructive" in self.classes

    @property
    def called(self) -> str:
        """Its name everywhere."""
        return self.full_name or self.name

    @property
    def definition(self) -> str:
        """How it is called, as Python."""
        if self.stub:
            return self.stub
        head = f"{'async ' if self.is_async else ''}def {self.name}{self.signature}:"
        doc = self.doc.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
        return (
            f"{head}\n{textwrap.indent(f'{chr(34) * 3}{doc}{chr(34) * 3}', '    ')}" if doc else f"{head} ..."
        )

    def describe(self) -> dict[str, Any]:
        """What the kernel is told, so that it can make a function of the same signature and docstring."""
        return {
            "name": self.name,
            "called": self.called,
            "signature": self.signature,
            "doc": self.doc,
            "async": self.is_async,
            "files": list(self.files),
        }


def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    kind: ToolClass | Iterable[ToolClass] = (),
    limit: int | None = None,
    preview: Preview | None = None,
) -> Any:
    """Say more of a tool than its function does. As a decorator, with or without arguments.

    Args:
        function: The function.
        name: Its name for blocks; None takes the function's.
        kind: What a call does: "read", "write", "destructive", "network", or several of them. A dry run makes no call
            that writes or is destructive; rules and modes of approval go by it, and take one that says nothing for one
            that writes and uses the network.
        limit: The most calls of it in a run; None for no limit.
        preview: Gets a call's arguments by name and says what it would change, as a unified diff; what it raises is
            no preview.

    Returns:
        The `Tool`; calling it calls the function. Without a function, what makes one of a function.

    Raises:
        ConfigError: As in `as_tool`, or if the kind is none.
    """
    if function is None:
        return lambda function: tool(function, name=name, kind=kind, limit=limit, preview=preview)
    made = _as_tool(function, name)
    return replace(made, classes=_classes(made.name, kind), limit=limit, preview=preview)


def _classes(name: str, kind: ToolClass | Iterable[ToolClass]) -> tuple[ToolClass, ...]:
    wanted = {kind} if isinstance(kind, str) else set(kind)
    if wrong := wanted - set(CLASSES):
        raise ConfigError(f"the tool {name} cannot be {min(wrong)!r}; a kind is one of {', '.join(CLASSES)}")
    return tuple(known for known in CLASSES if known in wanted)


def as_tool(function: Callable[..., Any] | Tool) -> Tool:
    """Make a tool of a function.

    Args:
        function: A function, a bound method or an object with `__call__`; a tool is returned as it is.

    Returns:
        The tool.

    Raises:
        ConfigError: If it has no name or no signature that could be shown, or a name that is taken.
    """
    return function if isinstance(function, Tool) else _as_tool(function)


def _as_tool(function: Callable[..., Any], name: str | None = None) -> Tool:
    name = name or getattr(function, "__name__", None) or type(function).__name__
    if not callable(function) or not name.isidentifier():
        raise ConfigError(f"{function!r} is no tool: pass a function with a name")
    if name in RESERVED:
        raise ConfigError(f"a tool cannot be called {name}: blocks need that name; rename the function")
    try:
        signature = inspect.signature(function, eval_str=False)
    except (TypeError, ValueError) as exception:
        raise ConfigError(f"the tool {name} has no signature that could be shown to the model") from exception
    doc = inspect.getdoc(function) or ""
    call = getattr(function, "__call__", None)  # noqa: B004
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    return Tool(name, function, _plain(signature), doc, is_async)


def as_tools(functions: Iterable[Callable[..., Any] | Tool]) -> dict[str, Tool]:
    """Make tools of functions.

    Args:
        functions: The functions.

    Returns:
        The tools by name, in order.

    Raises:
        ConfigError: As in `as_tool`, or if two have one name.
    """
    tools: dict[str, Tool] = {}
    for tool in map(as_tool, functions):
        if tool.name in tools:
            raise ConfigError(f"two tools are called {tool.name}; rename one of them")
        tools[tool.name] = tool
    return tools


def _plain(signature: inspect.Signature) -> str:
    """A signature as text that is Python again: types by name, defaults that are no literals as they show."""
    parameters = [
        parameter.replace(annotation=_type_name(parameter.annotation), default=_default(parameter.default))
        for parameter in signature.parameters.values()
    ]
    returns = _type_name(signature.return_annotation)
    return str(signature.replace(parameters=parameters, return_annotation=returns))


def _type_name(annotation: Any) -> Any:
    if annotation is inspect.Signature.empty:
        return annotation
    return _Text(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


def _default(value: Any) -> Any:
    if (
        value is inspect.Parameter.empty
        or value is None
        or isinstance(value, bool | int | float | str | bytes)
    ):
        return value
    if isinstance(value, list | tuple | dict | set) and len(repr(value)) < 80:
        return value
    return _Text("...")


class _Text:
    """Shows as a text without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

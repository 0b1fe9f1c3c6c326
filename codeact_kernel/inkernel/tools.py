"""The host's functions and `self`, as plain names in the namespace.

Comes in: what the host says of its tools (name, signature, docstring, kind). Goes out: functions with that
signature and docstring, so that `help()` and completion work, and `self`, each calling over the bridge.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

from codeact_kernel.inkernel.bridge import Bridge, ToolError
from codeact_kernel.inkernel.namespace import hide
from codeact_kernel.inkernel.outputtext import OutputText


class AgentSelf:
    """The agent that wrote this code.

    `self.output(id)` gives a block's whole output, `self.cancel(id)` ends a block, and
    `self.compact_knowledge(text)` replaces the conversation so far by what you write down.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def output(self, id: str) -> OutputText:  # noqa: A002
        """All that a block has printed and shown so far, as a text of any length.

        Args:
            id: The block's id; a reused one means the latest.

        Returns:
            A text like a `str`, of which only what is read is fetched: `o[a:b]`, `o.lines(a, b)`,
            `o.search(pattern)`, `print(o)`; `o.text` is a `str`.

        Raises:
            ToolError: If there is no such block.
        """

        def page(start: int, stop: int | None, lines: bool) -> Any:
            return self._bridge.call("self.output", (id, start, stop), {"lines": lines})

        return OutputText(id, page)

    def cancel(self, id: str) -> bool:  # noqa: A002
        """End a block that runs or waits.

        Args:
            id: The block's id.

        Returns:
            Whether there was one to end.
        """
        return bool(self._bridge.call("self.cancel", (id,)))

    def compact_knowledge(self, text: str) -> None:
        """Replace the conversation so far by a text, from the next reply on.

        What is in the namespace stays. Write down all that you will need: the task, what is done, what was
        found, what is next, and which names hold what.

        Args:
            text: What you know.
        """
        self._bridge.call("self.compact_knowledge", (text,))

    def __repr__(self) -> str:
        return "<the agent; help(self) tells what it can do>"


def install_tools(shell: Any, bridge: Bridge, content: dict[str, Any]) -> None:
    """Bind the host's tools and `self` in the namespace.

    Args:
        shell: IPython's shell.
        bridge: What they call over.
        content: {"tools": [{"name", "signature", "doc", "async"}, …], "self": whether to bind `self`}.
    """
    names: dict[str, Any] = {tool["name"]: make_tool(bridge, tool) for tool in content.get("tools", [])}
    names["ToolError"] = ToolError
    if content.get("self"):
        names["self"] = AgentSelf(bridge)
    hide(shell, names)


def make_tool(bridge: Bridge, tool: dict[str, Any]) -> Callable[..., Any]:
    """Make the function that stands for a host's tool.

    Args:
        bridge: What it calls over.
        tool: {"name", "signature", "doc", "async"}; the signature as text, "(query: str, limit: int = 5)".

    Returns:
        A function of that signature; an async one where the tool is async.
    """
    name = tool["name"]
    signature = parse_signature(tool["signature"])

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            return _by_name(signature.bind(*args, **kwargs))
        except TypeError as exception:
            raise TypeError(f"{name}{signature}: {exception}") from None

    if tool.get("async"):

        async def function(*args: Any, **kwargs: Any) -> Any:
            return await bridge.acall(name, *bind(args, kwargs))
    else:

        def function(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
            return bridge.call(name, *bind(args, kwargs))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = tool.get("doc")
    function.__module__ = "tools"
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _by_name(bound: inspect.BoundArguments) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Bound arguments, by name wherever a name will do, so that a message about one can name it."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    many = any(
        p.kind is p.VAR_POSITIONAL and bound.arguments.get(p.name)
        for p in bound.signature.parameters.values()
    )
    for parameter in bound.signature.parameters.values():
        if parameter.name not in bound.arguments:
            continue
        value = bound.arguments[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= value
        elif parameter.kind is parameter.POSITIONAL_ONLY or (
            many and parameter.kind is not parameter.KEYWORD_ONLY
        ):
            args.append(value)
        else:
            kwargs[parameter.name] = value
    return tuple(args), kwargs


class _Shown:
    """A default that is no literal: shown as the host writes it, and filled in by the host."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def parse_signature(text: str) -> inspect.Signature:
    """Read a signature from its text.

    Args:
        text: As `str(inspect.signature(f))` writes it.

    Returns:
        The signature; annotations are kept as text.
    """
    try:
        node = ast.parse(f"def f{text}: pass").body[0]
    except SyntaxError:
        return inspect.signature(lambda *args, **kwargs: None)
    assert isinstance(node, ast.FunctionDef)
    a = node.args
    kinds = inspect.Parameter
    positional = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(positional) - len(a.defaults)) + list(a.defaults)
    parameters = [
        _parameter(
            arg, kinds.POSITIONAL_ONLY if arg in a.posonlyargs else kinds.POSITIONAL_OR_KEYWORD, default
        )
        for arg, default in zip(positional, defaults, strict=True)
    ]
    if a.vararg:
        parameters.append(_parameter(a.vararg, kinds.VAR_POSITIONAL, None))
    parameters += [
        _parameter(arg, kinds.KEYWORD_ONLY, default)
        for arg, default in zip(a.kwonlyargs, a.kw_defaults, strict=True)
    ]
    if a.kwarg:
        parameters.append(_parameter(a.kwarg, kinds.VAR_KEYWORD, None))
    returns = ast.unparse(node.returns) if node.returns else inspect.Signature.empty
    return inspect.Signature(parameters, return_annotation=returns)


def _parameter(arg: ast.arg, kind: Any, default: ast.expr | None) -> inspect.Parameter:
    value: Any = inspect.Parameter.empty
    if default is not None:
        try:
            value = ast.literal_eval(default)
        except ValueError:
            value = _Shown(ast.unparse(default))
    annotation = ast.unparse(arg.annotation) if arg.annotation else inspect.Parameter.empty
    return inspect.Parameter(arg.arg, kind, default=value, annotation=annotation)

"""The host's functions and `self`, as plain names in the namespace.

Comes in: what the host says of its tools (name, signature, docstring, kind). Goes out: functions with that
signature and docstring, so that `help()` and completion work, each calling over the bridge; and `self` beside them.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from codeact_kernel.inkernel.agentself import AgentSelf
from codeact_kernel.inkernel.attach import attach
from codeact_kernel.inkernel.bridge import Bridge, ToolError
from codeact_kernel.inkernel.delegation import AgentError
from codeact_kernel.inkernel.namespace import hide
from codeact_kernel.inkernel.toolbox import TOOL, Group, Toolbox, atried, hold_group, tried


def install_tools(shell: Any, bridge: Bridge, content: dict[str, Any], agent: AgentSelf) -> None:
    """Bind the host's tools and `self` in the namespace.

    Args:
        shell: IPython's shell.
        bridge: What the tools call over.
        content: {"tools": what `make_tool` takes, or {"group": a dotted name} of tools that are asked for later, …;
            "self": whether to bind `self`}.
        agent: What `self` is.
    """
    names: dict[str, Any] = {}
    make = partial(make_tool, bridge)
    for tool in content.get("tools", []):
        if "group" not in tool:
            names[tool["name"]] = make(tool)
            continue
        hold_group(names, tool["group"], lambda name: Group(name, bridge, make))
    names["ToolError"] = ToolError
    if content.get("self"):
        names |= {"self": agent, "tools": Toolbox(bridge, shell.user_ns), "AgentError": AgentError}
    hide(shell, names)


def make_tool(bridge: Bridge, tool: dict[str, Any]) -> Any:
    """Make the function that stands for a host's tool.

    Args:
        bridge: What it calls over.
        tool: {"name", "signature", "doc"}; "called", the name that the host knows it by, where that is another;
            "async"; "files", parameters whose values are files, of which the host gets what they hold. The signature
            is a text, "(query: str, limit: int = 5)".

    Returns:
        A function of that signature; an async one where the tool is async. Its `try_` hands a failure back as a
        `ToolResult`; where it is a plain one, its `aio` is awaited.
    """
    called = tool.get("called", tool["name"])
    signature = parse_signature(tool["signature"])
    quickly = _quick_bind(signature)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not tool.get("files") and (given := quickly(args, kwargs)) is not None:
            return (), given
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as exception:
            raise TypeError(f"{tool['name']}{signature}: {exception}") from None
        for parameter in bound.arguments.keys() & tool.get("files", ()):
            bound.arguments[parameter] = attach(bound.arguments[parameter])
        return _by_name(bound)

    async def wait(*args: Any, **kwargs: Any) -> Any:
        return await bridge.acall(called, *bind(args, kwargs))

    def call(*args: Any, **kwargs: Any) -> Any:
        return bridge.call(called, *bind(args, kwargs))

    is_async = bool(tool.get("async"))
    function: Any = wait if is_async else call
    if not is_async:
        function.aio = _dressed(wait, tool, signature, ".aio")
    result = signature.replace(return_annotation="ToolResult")
    function.try_ = _dressed(atried(wait) if is_async else tried(call), tool, result, ".try_")
    return _dressed(function, tool, signature)


def _dressed(function: Any, tool: dict[str, Any], signature: inspect.Signature, form: str = "") -> Any:
    """Let a function look like a tool."""
    function.__name__ = function.__qualname__ = tool["name"]
    function.__doc__ = tool.get("doc")
    function.__module__ = "tools"
    function.__signature__ = signature
    function.__annotations__ = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if parameter.annotation is not inspect.Parameter.empty
    } | (
        {}
        if signature.return_annotation is inspect.Signature.empty
        else {"return": signature.return_annotation}
    )
    setattr(function, TOOL, tool.get("called", tool["name"]).replace(":", ".") + form)
    return function


def _quick_bind(
    signature: inspect.Signature,
) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any] | None]:
    """What binds arguments by name in a fifth of the time that `signature.bind` takes.

    It gives None where a parameter has no name that will do, and where the arguments do not fit: there the signature
    says what is wrong.
    """
    parameters = signature.parameters.values()
    placed = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    names = dict.fromkeys(p.name for p in parameters)
    required = {p.name for p in parameters if p.default is p.empty}
    plain = all(p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        if not plain or len(args) > len(placed):
            return None
        given = dict(zip(placed, args, strict=False))
        given |= kwargs
        fits = len(given) == len(args) + len(kwargs) and required <= given.keys() <= names.keys()
        return {name: given[name] for name in names if name in given} if fits else None

    return bind


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

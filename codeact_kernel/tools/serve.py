"""Answers calls that come over the bridge: the bridge's host end.

Comes in: a call (name, arguments, the block that made it). Goes out: the tool's result, or an exception whose
text the block reads. Every call of a tool passes here, once.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from codeact_kernel.errors import ToolError
from codeact_kernel.events import Event, ToolCalled, ToolReturned
from codeact_kernel.tools.tool import Tool

_SHOWN = 200
"""Characters of the arguments that an event carries."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    block_id: str | None
    """The block whose code called, where that is known."""


Before = Callable[[ToolUse], Awaitable[ToolUse]]
After = Callable[[ToolUse, Any], Awaitable[Any]]


class ToolServer:
    """Serves tools, and the methods of `self`, to blocks.

    Args:
        tools: The tools by name.
        methods: What `self.…` calls, by full name ("self.output").
        emit: Told of each call of a tool and its end.
        before: May change or refuse a call (by an exception).
        after: May change a result.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        methods: Mapping[str, Callable[..., Any]],
        emit: Callable[[Event], None],
        before: Before | None = None,
        after: After | None = None,
    ) -> None:
        self._tools = tools
        self._methods = methods
        self._emit = emit
        self._before = before
        self._after = after
        self._numbers = itertools.count(1)

    async def call(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], block_id: str | None) -> Any:
        """Answer one call.

        Args:
            name: The tool's name, or "self.…".
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            block_id: The block whose code called.

        Returns:
            What the function returned.

        Raises:
            ToolError: If there is no such tool, or if it failed; the text is for the block.
        """
        if name in self._methods:
            return await _run(self._methods[name], tuple(args), kwargs)
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"there is no tool {name!r}")
        return await self._use(tool, ToolUse(name, tuple(args), kwargs, block_id))

    async def _use(self, tool: Tool, use: ToolUse) -> Any:
        number, begun, ok = str(next(self._numbers)), time.monotonic(), False
        self._emit(ToolCalled(number, use.name, use.block_id, _shown(use)))
        try:
            if self._before is not None:
                use = replace(await self._before(use), name=tool.name)
            value = await _run(tool.function, use.args, use.kwargs)
            if self._after is not None:
                value = await self._after(use, value)
            ok = True
            return value
        except ToolError:
            raise
        except Exception as exception:
            raise ToolError(f"{use.name} failed: {type(exception).__name__}: {exception}") from exception
        finally:
            self._emit(ToolReturned(number, ok, time.monotonic() - begun))


async def _run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    call = getattr(function, "__call__", None)  # noqa: B004
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        return await function(*args, **kwargs)
    # A plain function may block; the loop has kernels and models to listen to.
    value = await asyncio.to_thread(function, *args, **kwargs)
    return await value if inspect.isawaitable(value) else value


def _shown(use: ToolUse) -> str:
    parts = [*map(_short, use.args), *(f"{key}={_short(value)}" for key, value in use.kwargs.items())]
    text = ", ".join(parts)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _short(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)[:_SHOWN]
    except (TypeError, ValueError):
        return f"<{type(value).__name__}>"

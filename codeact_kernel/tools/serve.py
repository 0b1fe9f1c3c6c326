"""Answers calls that come over the bridge: the bridge's host end.

Comes in: a call (name, arguments, the block that made it). Goes out: the tool's result, or an exception whose
text the block reads. Every call of a tool passes here, once.
"""

from __future__ import annotations

import inspect
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from codeact_kernel.approval import Call, CallGate, ToolClass
from codeact_kernel.errors import ToolError
from codeact_kernel.events import Event, ToolCalled, ToolReturned
from codeact_kernel.threads import DaemonThreads
from codeact_kernel.tools.catalogue import Catalogue
from codeact_kernel.tools.checks import Checks
from codeact_kernel.tools.kept import kept_arguments, kept_result
from codeact_kernel.tools.passage import let_all, let_through
from codeact_kernel.tools.quota import Quota
from codeact_kernel.tools.tool import Tool

_SHOWN = 200
"""Characters of the arguments that a line shows."""
_REASON = 2_000
"""Characters of an error that an event carries."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    block_id: str | None
    """The block whose code called, where that is known."""


Walled = Callable[[Sequence[str], Mapping[str, str], str], tuple[list[str], dict[str, str], str]]
"""Gives what to start in a program's place: (arguments, environment, folder) to the same three."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose code calls."""

    block_id: str | None = None
    """The block's id; None where it is not known."""
    request: str | None = None
    """What tells this block from an earlier one of the same id."""
    note: Callable[[str], None] = lambda text: None
    """Prints a line as the block; from any thread."""
    give: Callable[[Any], None] = lambda value: None
    """Gives the block the result at once, from the thread that has made it."""
    walled: Walled | None = None
    """Puts a program that a tool runs for the block behind the walls that the block is behind; None for none."""


Before = Callable[[ToolUse], Awaitable[ToolUse]]
After = Callable[[ToolUse, Any], Awaitable[Any]]


_caller: ContextVar[Caller | None] = ContextVar("whose code calls", default=None)


@contextmanager
def calling(who: Caller) -> Iterator[None]:
    """For what calls a tool's function itself, on the host: whose call it is.

    Args:
        who: The caller.
    """
    token = _caller.set(who)
    try:
        yield
    finally:
        _caller.reset(token)


def caller() -> str | None:
    """In a call: the block whose code has made it, where that is known."""
    who = _caller.get()
    return None if who is None else who.block_id


def walled(
    argv: Sequence[str], env: Mapping[str, str], cwd: str
) -> tuple[list[str], dict[str, str], str] | None:
    """In a call of a tool: what to start in a program's place, so that it can do no more than the block that calls.

    Args:
        argv: The program and its arguments.
        env: Its environment.
        cwd: The folder in which it is to run.

    Returns:
        The same three, for who starts it; None where the block is behind no walls, and outside of a call.
    """
    who = _caller.get()
    return None if who is None or who.walled is None else who.walled(argv, env, cwd)


def notify(text: str) -> None:
    """In a call of a tool: print a line as the block that has called, while the tool still works.

    What a tool says so is part of the block's output: its heartbeats show it. Outside of a call nothing happens.

    Args:
        text: The line.
    """
    who = _caller.get()
    if who is not None:
        who.note(text)


class ToolServer:
    """Serves tools, and the methods of `self` and `tools`, to blocks.

    Args:
        catalogue: The tools.
        methods: What `self.…` and `tools.…` call, by full name ("self.output").
        emit: Told of each call of a tool and its end.
        before: May change or refuse a call (by an exception).
        after: May change a result.
        quota: How many calls may be made.
        dry_run: Whether no tool that writes is called.
        audited: Waits until what was told is safely kept; no tool is called before. It may raise.
        gate: Decides about each call, before it is counted; None lets all pass.
        passes: Says quickly of a tool, its classes and the names of its arguments whether such calls pass the gate
            whatever they hold; None asks the gate each time.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        methods: Mapping[str, Callable[..., Any]],
        emit: Callable[[Event], None],
        before: Before | None = None,
        after: After | None = None,
        quota: Quota | None = None,
        dry_run: bool = False,
        audited: Callable[[], Awaitable[None]] | None = None,
        gate: CallGate | None = None,
        passes: Callable[
            [str, tuple[ToolClass, ...], Iterable[str]], bool
        ] = lambda name, classes, arguments: False,
    ) -> None:
        self._audited = audited
        self._catalogue = catalogue
        self._methods = methods
        self._emit = emit
        self._before = before
        self._after = after
        self._quota = quota
        self._dry_run = dry_run
        self._gate = gate
        self._passes = passes
        self._ways: dict[str, tuple[Tool, Checks, bool]] = {}
        self._said: set[tuple[str | None, str]] = set()
        """What the latest block that hit a limit was told."""
        self._numbers = itertools.count(1)

    async def call(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], who: Caller) -> Any:
        """Answer one call.

        Args:
            name: The tool's name, or "self.…" or "tools.…".
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            who: Whose code called.

        Returns:
            What the function returned. Of a tool that writes None in a dry run, and the block prints what was not done.

        Raises:
            ToolError: If there is no such tool, if it must not be called so, or if it failed; says so to the block.
        """
        _caller.set(who)
        if name in self._methods:
            method = self._methods[name]
            return await _run(method, tuple(args), kwargs, _is_async(method))
        tool = self._catalogue.tools.get(name) or await self._catalogue.find(name)
        return await self._use(tool, ToolUse(tool.called, tuple(args), kwargs, who.block_id), who)

    async def _use(self, tool: Tool, use: ToolUse, who: Caller) -> Any:
        number, begun, ok, reason = str(next(self._numbers)), time.monotonic(), False, "it was cancelled"
        result = ""
        self._emit(ToolCalled(number, use.name, use.block_id, *kept_arguments(use.args, use.kwargs)))
        try:
            if self._before is not None:
                use = replace(await self._before(use), name=tool.called)
            checks, is_async = self._way_of(tool)
            args, kwargs = checks(use.args, use.kwargs)
            if self._gate is not None:
                named = checks.named(args, kwargs)
                if not self._passes(tool.called, tool.classes, named):
                    args, kwargs, use = await self._judged(
                        self._gate, number, tool, checks, named, args, kwargs, use
                    )
            self._count(tool, who)
            if self._audited is not None:
                await self._audited()
            if self._dry_run and tool.writes:
                who.note(f"[dry run, not called: {tool.name}({_shown(use)})]")
                value = None
            else:
                # Where nobody has to see it before, a thread hands its result back by itself.
                function = tool.function if is_async or self._after else _giving(tool.function, who.give)
                value = await _run(function, args, kwargs, is_async)
            if self._after is not None:
                value = await self._after(use, value)
            ok, reason, result = True, "", kept_result(value)
            return value
        except ToolError as error:
            reason = error.message[:_REASON]
            raise
        except Exception as exception:
            failed = ToolError(f"{use.name} failed: {type(exception).__name__}: {exception}")
            reason = failed.message[:_REASON]
            raise failed from exception
        finally:
            let_all()
            self._emit(ToolReturned(number, ok, time.monotonic() - begun, reason, result))

    async def _judged(
        self,
        gate: CallGate,
        number: str,
        tool: Tool,
        checks: Checks,
        named: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        use: ToolUse,
    ) -> tuple[tuple[Any, ...], dict[str, Any], ToolUse]:
        """Ask the gate. What is called is what it has judged: these arguments, or those that somebody has changed."""

        async def preview() -> str:
            try:
                return await _threads.run(tool.preview, named) if tool.preview else ""
            except Exception:  # the call itself will tell what is wrong
                return ""

        call = Call(number, tool.called, use.block_id, tool.classes, named, preview, tool.folder)
        passed = gate(call)
        passed = await passed if inspect.isawaitable(passed) else passed
        if passed.arguments is not None:
            args, kwargs = checks(*checks.placed(passed.arguments))
            call = replace(call, arguments=checks.named(args, kwargs))
            use = replace(use, args=args, kwargs=kwargs)

        async def reach(url: str) -> None:
            further = gate(replace(call, arguments={**call.arguments, "url": url}, preview=None))
            if inspect.isawaitable(further):
                await further

        let_through(passed.places, reach)
        return args, kwargs, use

    def _count(self, tool: Tool, who: Caller) -> None:
        """Count a call; the first one past a limit is also printed, whether or not the block's code looks at errors."""
        if self._quota is None:
            return
        try:
            self._quota.take(tool.called, tool.group, tool.limit, who.request, who.block_id)
        except ToolError as error:
            said = who.request, error.message
            if said not in self._said:
                self._said = {*(said for said in self._said if said[0] == who.request), said}
                who.note(f"[{error.message}]")
            raise

    def _way_of(self, tool: Tool) -> tuple[Checks, bool]:
        """What checks a tool's arguments, and whether it is called in the loop; made at its first call."""
        made = self._ways.get(tool.called)
        if made is None or made[0] is not tool:
            checks = Checks(tool.called, tool.function, tool.files)
            made = self._ways[tool.called] = tool, checks, _is_async(tool.function)
        return made[1], made[2]


def _is_async(function: Callable[..., Any]) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def _run(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], is_async: bool
) -> Any:
    if is_async:
        return await function(*args, **kwargs)
    # A plain function may block; the loop has kernels and models to listen to.
    value = await _threads.run(function, *args, **kwargs)
    return await value if inspect.isawaitable(value) else value


def _giving(function: Callable[..., Any], give: Callable[[Any], None]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        if not inspect.isawaitable(value):
            give(value)
        return value

    return call


_threads = DaemonThreads()
"""In which plain functions run, of all agents."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=lambda part: f"<{type(part).__name__}>")
_FIRST = 20
"""Items of a list or dict that an event may show: the characters end there in any case."""


def _shown(use: ToolUse) -> str:
    parts = [*map(_short, use.args), *(f"{key}={_short(value)}" for key, value in use.kwargs.items())]
    text = ", ".join(parts)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _short(value: Any) -> str:
    try:
        return _ENCODER.encode(_first(value))[:_SHOWN]
    except (TypeError, ValueError):
        return f"<{type(value).__name__}>"


def _first(value: Any) -> Any:
    """What there is to see of a value: a long one need not be written as a whole."""
    if isinstance(value, str):
        return value[:_SHOWN]
    if isinstance(value, list | tuple):
        return [_first(item) for item in value[:_FIRST]]
    if isinstance(value, dict) and len(value) > _FIRST:
        return dict(itertools.islice(value.items(), _FIRST))
    return value

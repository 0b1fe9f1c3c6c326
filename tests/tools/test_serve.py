"""Calls from blocks, answered."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from codeact_kernel.errors import ToolError
from codeact_kernel.events import ToolCalled, ToolReturned
from codeact_kernel.tools import ToolServer, as_tools


def where() -> str:
    """Tell the thread."""
    return threading.current_thread().name


async def double(n: int) -> int:
    """Double."""
    return 2 * n


def broken() -> None:
    """Fail."""
    raise KeyError("x")


def server(events=None, **hooks):
    events = [] if events is None else events
    return ToolServer(
        as_tools([where, double, broken]), {"self.output": lambda id: f"out {id}"}, events.append, **hooks
    )


async def test_a_plain_function_runs_beside_the_loop_and_an_async_one_in_it():
    assert await server().call("where", (), {}, "b1") != threading.current_thread().name
    assert await server().call("double", (), {"n": 4}, "b1") == 8


async def test_methods_of_self_are_served_without_events():
    events = []
    assert await server(events).call("self.output", ("b1",), {}, "b2") == "out b1"
    assert events == []


async def test_a_call_and_its_end_are_told():
    events = []
    with pytest.raises(ToolError, match="broken failed: KeyError: 'x'"):
        await server(events).call("broken", (), {}, "b1")
    called, returned = events
    assert (called.name, called.block_id) == ("broken", "b1")
    assert isinstance(called, ToolCalled)
    assert isinstance(returned, ToolReturned)
    assert not returned.ok


async def test_an_unknown_tool_is_a_tool_error():
    with pytest.raises(ToolError, match="there is no tool 'nosuch'"):
        await server().call("nosuch", (), {}, None)


async def test_hooks_change_and_refuse_calls():
    async def before(use):
        if use.kwargs["n"] < 0:
            raise ToolError("no negative numbers here")
        return replace(use, kwargs={"n": use.kwargs["n"] + 1})

    async def after(use, value):
        return [value]

    tools = server(before=before, after=after)
    assert await tools.call("double", (), {"n": 1}, None) == [4]
    with pytest.raises(ToolError, match="no negative numbers"):
        await tools.call("double", (), {"n": -1}, None)

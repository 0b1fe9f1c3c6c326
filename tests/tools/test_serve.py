"""Calls from blocks, answered."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from codeact_kernel.approval import Passed
from codeact_kernel.errors import ToolError
from codeact_kernel.events import ToolCalled, ToolReturned
from codeact_kernel.tools import Caller, CallLimits, Catalogue, Quota, ToolServer, as_tools, notify, tool
from codeact_kernel.tools.checks import Checks


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
        Catalogue(as_tools([where, double, broken])),
        {"self.output": lambda id: f"out {id}"},
        events.append,
        **hooks,
    )


async def test_a_plain_function_runs_beside_the_loop_and_an_async_one_in_it():
    assert await server().call("where", (), {}, Caller("b1")) != threading.current_thread().name
    assert await server().call("double", (), {"n": 4}, Caller("b1")) == 8


async def test_methods_of_self_are_served_without_events():
    events = []
    assert await server(events).call("self.output", ("b1",), {}, Caller("b2")) == "out b1"
    assert events == []


async def test_a_call_and_its_end_are_told():
    events = []
    with pytest.raises(ToolError, match="broken failed: KeyError: 'x'"):
        await server(events).call("broken", (), {}, Caller("b1"))
    called, returned = events
    assert (called.name, called.block_id) == ("broken", "b1")
    assert isinstance(called, ToolCalled)
    assert isinstance(returned, ToolReturned)
    assert not returned.ok


async def test_an_unknown_tool_is_a_tool_error():
    with pytest.raises(ToolError, match="there is no tool 'nosuch'"):
        await server().call("nosuch", (), {}, Caller())


async def test_hooks_change_and_refuse_calls():
    async def before(use):
        if use.kwargs["n"] < 0:
            raise ToolError("no negative numbers here")
        return replace(use, kwargs={"n": use.kwargs["n"] + 1})

    async def after(use, value):
        return [value]

    tools = server(before=before, after=after)
    assert await tools.call("double", (), {"n": 1}, Caller()) == [4]
    with pytest.raises(ToolError, match="no negative numbers"):
        await tools.call("double", (), {"n": -1}, Caller())


async def test_wrong_arguments_never_reach_the_function_and_right_ones_are_converted():
    assert await server().call("double", (), {"n": "4"}, Caller()) == 8
    with pytest.raises(ToolError, match="argument 'n' of double is wrong: input should be a valid integer"):
        await server().call("double", (), {"n": "four"}, Caller())


async def test_a_hook_s_arguments_are_checked_too():
    async def before(use):
        return replace(use, kwargs={"n": "none"})

    with pytest.raises(ToolError, match="argument 'n'"):
        await server(before=before).call("double", (), {"n": 1}, Caller())


async def test_a_dry_run_calls_no_tool_that_writes_and_says_what_it_would_have_called():
    sent, said, events = [], [], []

    @tool(kind="write")
    def send(text: str, to: str = "all") -> int:
        """Send."""
        sent.append(text)
        return 1

    dry = ToolServer(Catalogue(as_tools([send, double])), {}, events.append, dry_run=True)
    who = Caller("b1", "m1", said.append)
    assert await dry.call("send", ("hello",), {"to": "you"}, who) is None
    assert await dry.call("double", (), {"n": 1}, who) == 2
    with pytest.raises(ToolError, match="missing a required argument"):
        await dry.call("send", (), {}, who)
    assert (sent, said) == ([], ['[dry run, not called: send("hello", to="you")]'])


async def test_a_tool_can_say_something_while_it_works_also_from_a_thread():
    said = []

    def slow() -> str:
        """Work."""
        notify("half done")
        return "done"

    there = ToolServer(Catalogue(as_tools([slow])), {}, lambda event: None)
    assert await there.call("slow", (), {}, Caller("b1", "m1", said.append)) == "done"
    assert said == ["half done"]
    notify("nobody hears")


async def test_a_call_past_a_limit_is_a_tool_error():
    there = server(quota=Quota(CallLimits(block=1)))
    who = Caller("b1", "m1")
    await there.call("double", (), {"n": 1}, who)
    with pytest.raises(ToolError, match="1 tool calls of block b1"):
        await there.call("double", (), {"n": 1}, who)
    assert await there.call("double", (), {"n": 1}, Caller("b1", "m2")) == 2
    assert await there.call("self.output", ("b1",), {}, who) == "out b1"


async def test_a_limit_is_printed_once_a_block_though_its_code_swallows_every_error():
    said = []
    there = server(quota=Quota(CallLimits(run=1)))
    await there.call("double", (), {"n": 1}, Caller("b1", "m1"))
    for block in ("m1", "m1", "m2", "m2"):
        with pytest.raises(ToolError):
            await there.call("double", (), {"n": 1}, Caller("b1", block, said.append))
    assert len(said) == 2
    assert said[0].startswith("[this call was not made: the 1 tool calls of the run that are allowed")


async def test_a_plain_function_gives_its_result_from_its_thread_unless_a_hook_has_to_see_it_first():
    given = []
    who = Caller("b1", "m1", give=given.append)

    def plain(n: int) -> int:
        """Plain."""
        return n

    async def after(use, value):
        return value

    for hooks in ({}, {"after": after}):
        there = ToolServer(Catalogue(as_tools([plain, double])), {}, lambda event: None, **hooks)
        assert await there.call("plain", (), {"n": 1}, who) == 1
        assert await there.call("double", (), {"n": 1}, who) == 2
    assert given == [1]


# -- the gate ---------------------------------------------------------------------------------------------


@tool(kind="write")
def send(to: str, *more: str, times: int = 1, **rest: str) -> str:
    """Send."""
    return f"{to} {list(more)} {times} {rest}"


def gated(gate, events=None, **options):
    return ToolServer(
        Catalogue(as_tools([send])),
        {"self.output": lambda id: f"out {id}"},
        ([] if events is None else events).append,
        gate=gate,
        **options,
    )


async def test_the_gate_sees_each_call_by_name_and_checked_and_with_its_number():
    calls, events = [], []

    def gate(call):
        calls.append(call)
        return Passed()

    it = gated(gate, events)
    assert await it.call("send", ("a", "b"), {"times": "3", "x": "y"}, Caller("b1")) == "a ['b'] 3 {'x': 'y'}"
    (call,) = calls
    assert call.arguments == {"to": "a", "more": ["b"], "times": 3, "x": "y"}
    assert (call.name, call.block_id, call.classes) == ("send", "b1", ("write",))
    assert call.call_id == events[0].call_id
    await it.call("self.output", ("b1",), {}, Caller("b1"))
    assert len(calls) == 1


async def test_a_refused_call_is_neither_counted_nor_made():
    events = []

    def gate(call):
        raise ToolError("no")

    it = gated(gate, events, quota=Quota(CallLimits(run=1)), dry_run=True)
    for _ in range(3):
        with pytest.raises(ToolError, match=r"^no$"):
            await it.call("send", ("a",), {}, Caller("b1"))
    assert [type(event) for event in events] == [ToolCalled, ToolReturned] * 3


async def test_what_somebody_has_changed_is_checked_and_called():
    async def gate(call):
        return Passed({"to": "b", "more": ["c"], "times": "2"})

    assert await gated(gate).call("send", ("a",), {"times": 1}, Caller("b1")) == "b ['c'] 2 {}"

    async def wrong(call):
        return Passed({"to": 3})

    with pytest.raises(ToolError, match="argument 'to' of send is wrong"):
        await gated(wrong).call("send", ("a",), {}, Caller("b1"))


async def test_a_call_with_wrong_arguments_is_asked_about_by_nobody():
    calls = []
    with pytest.raises(ToolError, match="argument 'times'"):
        await gated(calls.append).call("send", ("a",), {"times": "x"}, Caller("b1"))
    assert calls == []


async def test_the_arguments_of_a_call_by_name_can_be_passed_again():
    def odd(a, /, b, *c, d, **e):
        return a, b, c, d, e

    checks = Checks("odd", odd)
    args, kwargs = (1, 2, 3, 4), {"d": 5, "f": 6}
    named = checks.named(args, kwargs)
    assert named == {"a": 1, "b": 2, "c": [3, 4], "d": 5, "f": 6}
    again = checks.placed(named)
    assert odd(*again[0], **again[1]) == odd(*args, **kwargs)


async def test_a_preview_that_fails_is_none_and_one_that_works_is_seen():
    def preview(arguments):
        return f"to {arguments['to']}" if arguments["to"] == "a" else 1 / 0

    seen = []

    async def gate(call):
        seen.append(await call.preview())
        return Passed()

    it = ToolServer(
        Catalogue(as_tools([tool(send.function, preview=preview)])), {}, lambda event: None, gate=gate
    )
    await it.call("send", ("a",), {}, Caller("b1"))
    await it.call("send", ("b",), {}, Caller("b1"))
    assert seen == ["to a", ""]

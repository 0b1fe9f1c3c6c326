"""Calls from blocks to the host."""

from __future__ import annotations

import asyncio

import pytest

pytestmark = pytest.mark.kernel

TOOLS = [
    {
        "name": "add",
        "signature": "(a: int, b: int = 2) -> int",
        "doc": "Add two numbers.\n\nMore.",
        "async": False,
    },
    {"name": "fetch", "signature": "(url: str) -> str", "doc": "Fetch a page.", "async": True},
]


class Host:
    """Answers calls and remembers them."""

    def __init__(self):
        self.calls = []
        self.hold = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, name, args, kwargs, parent, note):
        self.calls.append((name, args, kwargs))
        if name == "add":
            return sum([*args, *kwargs.values()])
        if name == "fetch":
            args = [*args, *kwargs.values()]
            if args == ["hold"]:
                try:
                    await self.hold.wait()
                except asyncio.CancelledError:
                    self.cancelled.set()
                    raise
            return f"<{args[0]}>"
        if name == "self.output":
            text = f"output of {args[0]}"
            return {"text": text, "start": 0, "stop": len(text), "length": len(text), "lines": 0}
        if name == "self.cancel":
            return True
        raise ValueError(f"{name} is out of order")


@pytest.fixture
def host():
    return Host()


@pytest.fixture
async def bench(open_bench, host):
    return await open_bench(host, TOOLS)


@pytest.mark.parametrize("lane", ["main", "worker"])
async def test_a_tool_is_called_from_every_lane_without_await(bench, lane):
    assert (await bench.run("add(1, b=4)", lane=lane)).value == "5"


async def test_an_async_tool_is_awaited_and_gathered(bench):
    code = "import asyncio\nprint(await asyncio.gather(*[fetch(str(i)) for i in range(50)]))"
    assert (await bench.run(code)).text == f"{[f'<{i}>' for i in range(50)]}\n"


async def test_a_tool_is_called_from_a_thread_and_from_a_function_of_an_earlier_block(bench):
    await bench.run("def helper(n):\n    return add(n, 1)")
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(4) as pool:\n    print(list(pool.map(helper, range(8))))"
    )
    assert (await bench.run(code)).text == "[1, 2, 3, 4, 5, 6, 7, 8]\n"


async def test_help_and_signature_are_those_of_the_host_function(bench):
    block = await bench.run(
        "import inspect\nhelp(add)\nprint(inspect.signature(add), inspect.iscoroutinefunction(fetch))"
    )
    assert "Add two numbers." in block.text
    assert "(a: 'int', b: 'int' = 2) -> 'int' True" in block.text


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [("ad", "add"), ("add(1, b", "b="), ("fetch.tr", "fetch.try_"), ("tools.se", "tools.search")],
)
async def test_completion_knows_tools_their_arguments_and_their_forms(bench, typed, wanted):
    reply = await bench.kernel.client.request("complete_request", {"code": typed, "cursor_pos": len(typed)})
    matches = reply["content"]["matches"]
    assert any(wanted.endswith(match) or match == wanted for match in matches if match), matches


async def test_a_type_checker_at_run_time_sees_the_hints(bench):
    block = await bench.run(
        "import typing\nprint(typing.get_type_hints(add), typing.get_type_hints(fetch)['return'])"
    )
    assert block.text == ("{'a': <class 'int'>, 'b': <class 'int'>, 'return': <class 'int'>} <class 'str'>\n")


async def test_wrong_arguments_fail_in_the_block_and_never_reach_the_host(bench, host):
    block = await bench.run("add(1, 2, 3)")
    assert block.status == "error"
    assert "too many positional arguments" in block.error
    assert host.calls == []


async def test_what_the_host_raises_is_a_tool_error_in_the_block(bench):
    block = await bench.run(
        "try:\n    self.compact_knowledge('x')\nexcept ToolError as e:\n    print('caught', e)"
    )
    assert block.text == "caught self.compact_knowledge is out of order\n"


async def test_an_argument_that_cannot_travel_is_named(bench, host):
    block = await bench.run("add(1, b=object())")
    assert "argument 'b' of add is a builtins.object" in block.error
    assert host.calls == []


async def test_values_of_many_shapes_survive_the_way(open_bench):
    seen = []

    async def echo(name, args, kwargs, parent, note):
        seen.append(kwargs["x"])
        return kwargs["x"]

    bench = await open_bench(echo, [{"name": "echo", "signature": "(x)", "doc": ""}])
    value = {
        "a": [1, 2.5, None, True],
        3: (b"\x00\xff", {"s"}),
        "nested": {"$codeact": "x"},
        "text": "äö\U0001f600",
    }
    block = await bench.run(f"x = {value!r}\nprint(echo(x) == x, type(echo(x)[3]))")
    assert block.text == "True <class 'tuple'>\n"
    assert seen[0] == value


async def test_an_interrupt_ends_the_waiting_call_and_cancels_it_on_the_host(bench, host):
    for code in (
        "print('on', flush=True)\nawait fetch('hold')",
        "print('on', flush=True)\nimport asyncio\nasyncio.run(fetch('hold'))",
    ):
        host.cancelled.clear()
        stuck, task = bench.start(code, id="stuck")
        await stuck.spoke.wait()
        while not host.calls:
            await asyncio.sleep(0.01)
        await bench.runner.interrupt("stuck")
        async with asyncio.timeout(5):
            assert (await task).status == "error"
            await host.cancelled.wait()
        host.calls.clear()


async def test_self_reaches_the_host(bench):
    block = await bench.run("print(self.output('b1'), self.cancel('b1'))\nhelp(self)")
    assert block.text.startswith("output of b1 True\n")
    assert "compact_knowledge" in block.text


async def test_printed_text_is_never_a_call(bench, host):
    code = 'print(\'{"msg_type": "codeact_call", "content": {"call": 1, "name": "add", "args": [1]}}\')'
    await bench.run(code)
    assert host.calls == []


async def test_without_a_host_a_tool_says_so(open_bench):
    bench = await open_bench(None, TOOLS)
    block = await bench.run("add(1)")
    assert "no tools are served" in block.error


async def test_a_thousand_calls_in_flight(bench):
    code = (
        "import asyncio\nr = await asyncio.gather(*[fetch(str(i)) for i in range(1000)])\nprint(len(set(r)))"
    )
    assert (await bench.run(code)).text == "1000\n"


async def test_calls_and_requests_pass_each_other_on_one_channel_and_none_gets_stuck(bench):
    await bench.run(
        "def calls(n):\n    return sum(add(i, 1) for i in range(n))\n"
        "async def fetches(n):\n    return len([await fetch(str(i)) for i in range(n)])"
    )
    tasks = [
        bench.start("print(calls(400))", id="m", lane="main"),
        bench.start("print(calls(400))", id="w", lane="worker"),
        bench.start("print(await fetches(400))", id="a"),
    ]
    running = asyncio.gather(*(task for _, task in tasks))
    asked = 0
    async with asyncio.timeout(60):
        while not running.done() or asked < 100:
            reply = await bench.kernel.client.request("kernel_info_request", {}, channel="control")
            assert reply["content"]["status"] == "ok"
            asked += 1
        await running
    assert [watched.text for watched, _ in tasks] == ["80200\n", "80200\n", "400\n"]


ALARMS = """
import asyncio, signal, warnings
warnings.simplefilter("ignore")  # a coroutine that was made just before the alarm never runs
class Alarm(Exception): pass
def ring(*_): raise Alarm
async def nothing():
    await asyncio.sleep(0)
before, hits = signal.signal(signal.SIGALRM, ring), 0
for round_ in range(500):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003 + 0.000003 * round_)
        for _ in range(100):
            {waits}
    except Alarm:
        hits += 1
signal.signal(signal.SIGALRM, before)
print(hits >= {fewest}, add(1, 1))
"""


# asyncio drops weak references all the time, and Python prints and drops what lands while it does.
@pytest.mark.parametrize(
    ("waits", "fewest"), [("assert add(2, 1) == 3", 500), ("asyncio.run(nothing())", 450)]
)
async def test_exceptions_that_land_in_a_wait_come_out_as_they_are_and_break_nothing(bench, waits, fewest):
    """A handler of a signal may raise anywhere; half a message on the channel would swallow the next one."""
    for _ in range(3):
        block = await bench.run(ALARMS.format(waits=waits, fewest=fewest), lane="main")
        assert block.error == ""
        assert block.text.endswith("True 2\n")
    block = await bench.run("import asyncio\nprint(await asyncio.gather(*[fetch('x') for _ in range(3)]))")
    assert block.text == "['<x>', '<x>', '<x>']\n"


async def test_interrupts_at_random_instants_of_calls_leave_the_bridge_whole(bench):
    for round_ in range(40):
        stuck, task = bench.start("while True:\n    add(1)", id="calls")
        await stuck.running.wait()
        await asyncio.sleep(0.002 + 0.0003 * round_)
        await bench.runner.interrupt("calls")
        async with asyncio.timeout(20):
            assert (await task).status == "error"
        assert (await bench.run("print(add(2, 3))")).text == "5\n"

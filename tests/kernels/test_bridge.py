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

    async def __call__(self, name, args, kwargs, parent):
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

    async def echo(name, args, kwargs, parent):
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

"""Tools as blocks have them: large results, notes, groups, failures as values, and calls that are refused."""

from __future__ import annotations

import asyncio
import re

import pytest

from codeact_kernel.errors import ToolError
from codeact_kernel.kernels.large import Large
from codeact_kernel.tools import Caller, Catalogue, ToolServer, as_tools

pytestmark = pytest.mark.kernel

TOOLS = [
    {"name": "rows", "signature": "(n: int) -> list", "doc": "Some rows."},
    {"name": "slow", "signature": "(n: int) -> list", "doc": "Some rows, later.", "async": True},
    {"group": "mcp.shop"},
    {"group": "mcp.shop.deep"},
]
NAMED = ("add", "name", "make", "bridge", "list", "try_x", "parts", "hold")
"""Tools with names that our own code might have."""
IN_SHOP = {
    "name": "order",
    "called": "mcp:shop:order",
    "signature": "(*, id: int) -> dict",
    "doc": "One order.",
}


class Host:
    """Answers calls."""

    def __init__(self):
        self.calls = []
        self.go = asyncio.Event()
        self.runner = None

    async def __call__(self, name, args, kwargs, msg_id, back):
        block = self.runner.block_of(msg_id)
        self.calls.append((name, block))
        n = kwargs.get("n")
        if name == "tools.group":
            others = [{**IN_SHOP, "name": name, "called": f"mcp:shop:{name}"} for name in NAMED]
            return [IN_SHOP, *others] if args[0] == "mcp.shop" else []
        if name.startswith("mcp:shop:"):
            if kwargs["id"] < 0:
                raise ToolError("there is no such order")
            return kwargs
        if name == "slow":
            back.note(f"working on {n}")
            await self.go.wait()
        if name.startswith("tools."):
            return [name, *map(str, args)] if name != "tools.describe" else f"def {args[0]}"
        return list(range(n))


@pytest.fixture
def host():
    return Host()


@pytest.fixture
async def bench(open_bench, host):
    bench = await open_bench(host, TOOLS, max_result=10_000)
    host.runner = bench.runner
    return bench


# -- results that are too large -------------------------------------------------------------------------------


async def test_a_large_result_is_a_handle_that_loads_it(bench):
    block = await bench.run("r = rows(500_000)\nprint(r)\nv = r.load()\nprint(len(v), v[-1], r.what)")
    first, second = block.text.splitlines()
    assert re.fullmatch(r"<large result, list of length 500000, \d.\d MB: it.load\(\) gives it>", first)
    assert second == "500000 499999 list of length 500000"
    assert (await bench.run("print(rows(3))")).text == "[0, 1, 2]\n"


@pytest.mark.parametrize("use", ["r[0]", "for x in r: pass", "len(r)", "1 in r", "r.append(1)"])
async def test_a_handle_that_is_taken_for_the_result_says_what_it_is(bench, use):
    block = await bench.run(f"r = rows(9_000)\n{use}")
    assert block.status == "error"
    assert "it.load() gives it>: it has n" in block.error


def test_the_latest_large_results_are_kept_and_the_others_removed(tmp_path):
    large = Large(tmp_path, 10)
    held = [large.hold("x" * 100, "str") for _ in range(25)]
    assert len([*tmp_path.iterdir()]) == 20
    assert large.page(held[-1]["number"], 0) == b'"' + b"x" * 100 + b'"'
    with pytest.raises(ToolError, match="not kept any more"):
        large.page(held[0]["number"], 0)
    assert large.hold([1, 2], "list") is None


async def test_arguments_that_are_too_large_are_refused(bench, host):
    block = await bench.run("r = rows.try_(bytes(40_000_000))\nprint(r.error)")
    assert block.text.startswith("the arguments of rows take more than 32 MiB: write them to a file")
    assert host.calls == []


# -- what a tool says while it works --------------------------------------------------------------------------


async def test_what_a_tool_says_is_its_block_s_output_while_it_works(bench, host):
    await bench.run("other = 1")
    watched, task = bench.start("print('before')\nr = await slow(2)\nprint('after', r)")
    beside = await bench.run("print('beside')")
    async with asyncio.timeout(20):
        while "working on 2" not in watched.text:
            watched.spoke.clear()
            await watched.spoke.wait()
    host.go.set()
    assert (await task).text == "before\nworking on 2\nafter [0, 1]\n"
    assert beside.text == "beside\n"


# -- failures as values ---------------------------------------------------------------------------------------


async def test_a_loop_survives_an_item_that_fails(bench):
    code = (
        "for id in (1, -1, 2):\n    r = mcp.shop.order.try_(id=id)\n    print(r.ok, r.value, r.error)\n"
        "print(bool(r), mcp.shop.order.try_(3).error)"
    )
    assert (await bench.run(code)).text == (
        "True {'id': 1} None\nFalse None there is no such order\nTrue {'id': 2} None\n"
        "True order(*, id: 'int') -> 'dict': too many positional arguments\n"
    )


async def test_tools_call_takes_each_form_of_a_name_and_arguments_of_both_kinds(bench, host):
    host.go.set()
    code = (
        "print(tools.call('mcp:shop:order', {'id': 1}).value, tools.call(mcp.shop.order, {'id': 2}).value)\n"
        "print(tools.call('rows', [2]).value, (await tools.call('slow', {'n': 1})).value)\n"
        "try:\n    tools.call('nosuch')\nexcept ToolError as e:\n    print(e)"
    )
    assert (await bench.run(code)).text == (
        "{'id': 1} {'id': 2}\nworking on 1\n[0, 1] [0]\n"
        "there is no tool 'nosuch'; tools.search(…) finds some, tools.list() tells what there is\n"
    )


async def test_a_plain_tool_can_be_awaited_too(bench):
    code = "import asyncio\nprint(await asyncio.gather(*[rows.aio(n) for n in range(3)]))"
    assert (await bench.run(code)).text == "[[], [0], [0, 1]]\n"


# -- groups ---------------------------------------------------------------------------------------------------


async def test_the_tools_of_a_group_are_asked_for_when_one_is_used_and_then_known(bench, host):
    assert host.calls == []
    code = "print(mcp.shop.order(id=3))\nhelp(mcp.shop.order)\nprint('order' in dir(mcp.shop), mcp, mcp.shop.deep)"
    block = await bench.run(code)
    assert "{'id': 3}" in block.text
    assert "One order." in block.text
    assert "True <tools of mcp: tools.list('mcp') lists them" in block.text
    assert [name for name, _ in host.calls] == ["tools.group", "mcp:shop:order"]


@pytest.mark.parametrize("name", NAMED)
async def test_a_tool_of_a_group_may_have_any_name(bench, name):
    assert (await bench.run(f"print(mcp.shop.{name}(id=4))")).text == "{'id': 4}\n"


async def test_a_tool_that_a_group_does_not_have_has_a_hint(bench):
    block = await bench.run("mcp.shop.orders(id=1)")
    assert (
        "mcp.shop has no 'orders'; tools.list('mcp.shop') tells what it has; did you mean 'order'?"
        in block.error
    )


async def test_ipython_s_looks_at_a_group_ask_for_nothing(bench, host):
    await bench.run("mcp.shop\nmcp")
    await bench.run("display(mcp.shop)")
    assert host.calls == []


async def test_tools_finds_and_describes_over_the_host(bench):
    block = await bench.run(
        "print(tools.search('calendar'))\nprint(tools.list('mcp.shop'))\nprint(tools.describe(mcp.shop.order.try_))"
    )
    assert block.text == "tools.search\ncalendar\n20\ntools.list\nmcp.shop\ndef mcp.shop.order\n"


# -- calls that are refused -----------------------------------------------------------------------------------


LEFT = """
import threading
go, said = threading.Event(), []
def work():
    go.wait()
    said.append(rows.try_(1))
"""


async def test_what_a_block_leaves_running_calls_nobody_once_it_has_ended(bench, host):
    await bench.run(LEFT + "t = threading.Thread(target=work)\nt.start()", id="first")
    block = await bench.run("go.set()\nt.join()\nprint(said[0].error)")
    assert block.text.startswith("block first has ended: calls of what it left running are answered only if")
    assert host.calls == []


async def test_what_was_handed_to_the_background_calls_as_the_agent(bench, host):
    await bench.run(LEFT + "t = threading.Thread(target=work)\nt.start()\nself.background(t)")
    assert (await bench.run("go.set()\nt.join()\nprint(said[0].value)")).text == "[0]\n"
    assert host.calls == [("rows", None)]


async def test_work_that_a_later_block_gives_a_pool_is_that_block_s(bench, host):
    await bench.run(
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(int)"
    )
    assert (await bench.run("print(pool.submit(rows, 1).result())", id="later")).text == "[0]\n"
    assert host.calls == [("rows", "later")]


async def test_a_call_in_the_name_of_an_ended_block_is_refused_by_the_host_whoever_makes_it(bench, host):
    await bench.run("from codeact_kernel.inkernel.request import current\nold = current.get()", id="old")
    forged = (
        "old.ended = None\ntoken = current.set(old)\nr = rows.try_(1)\ncurrent.reset(token)\nprint(r.error)"
    )
    assert (await bench.run(forged)).text == "block old has ended: calls in its name are not answered\n"
    assert host.calls == []


async def test_a_copy_of_the_process_is_refused_at_once(bench, host):
    code = (
        "import multiprocessing\n"
        "def work():\n    print(rows.try_(1).error)\n"
        "p = multiprocessing.get_context('fork').Process(target=work)\np.start()\np.join()"
    )
    block = await bench.run(code)
    assert "rows cannot be called from a copy of the kernel's process: call it from a thread" in block.text
    assert host.calls == []


# -- real tools -----------------------------------------------------------------------------------------------


def double(n: int) -> int:
    """Double."""
    return 2 * n


async def adouble(n: int) -> int:
    """Double."""
    return 2 * n


async def test_threads_of_blocks_call_threads_of_the_host_and_each_gets_its_own_answer(open_bench):
    tools = as_tools([double, adouble])
    server = ToolServer(Catalogue(tools), {}, lambda event: None)

    async def serve(name, args, kwargs, msg_id, back):
        return await server.call(name, args, kwargs, Caller(None, msg_id, back.note, back.give))

    bench = await open_bench(serve, [tool.describe() for tool in tools.values()])
    threads = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n    got = list(pool.map(double, range(1500)))\n"
        "assert got == [2 * n for n in range(1500)]"
    )
    beside = (
        "import asyncio\nfor _ in range(20):\n"
        "    assert await asyncio.gather(*map(adouble, range(50))) == [*range(0, 100, 2)]"
    )
    one_by_one = "for n in range(500):\n    assert double(n) == 2 * n"
    tasks = [bench.start(code)[1] for code in (threads, beside, one_by_one)]
    async with asyncio.timeout(60):
        assert [(await task).error for task in tasks] == ["", "", ""]

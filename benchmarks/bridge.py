"""Calls of a trivial tool from code: our bridge beside ipybox's tool server and a local MCP server, in one run.

The tool adds two numbers. Ours is called from a block, over the kernel's control channel: a plain function, which the
host runs in a thread, one call after the other from the main lane; an async one one after the other and gathered in the
async lane. ipybox's tool server (HTTP, in front of an MCP server) and an MCP server over stdio with the official client
run where they are installed (`pip install ipybox`, `pip install mcp`). The same function called in its own process is
printed as the floor.

The yardstick is a `kernel_info` round trip on the same kernel: as an ordinary client has it (jupyter_client's
asynchronous one, from the request sent to its reply received), and as our own client has it, which is faster. All are
measured in turns, so that what else the machine does hits all of them; the figures are medians.
"""

from __future__ import annotations

import asyncio
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from jupyter_client.asynchronous import AsyncKernelClient

from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.kernels import Kernel, KernelRunner, KernelSettings
from codeact_kernel.tools import Caller, Catalogue, ToolServer, as_tools

CALLS, FEW, MANY, ROUNDS = 300, 50, 2000, 9
SERVER = """
try:
    from mcp.server.mcpserver import MCPServer
except ImportError:  # an SDK before 2.0, which ipybox asks for
    from mcp.server.fastmcp import FastMCP as MCPServer
server = MCPServer("adder", log_level="ERROR")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

server.run()
"""
PARAMETERS = {"command": sys.executable, "args": ["-c", SERVER]}

ONE_BY_ONE = f"""
import time
took = []
for i in range({CALLS}):
    began = time.perf_counter()
    assert add(i, 1) == i + 1
    took.append(time.perf_counter() - began)
print(took)
"""
GATHERED = """
import asyncio, time
began = time.perf_counter()
assert sum(await asyncio.gather(*(aadd(i, 1) for i in range({0})))) == {0} * ({0} + 1) // 2
print(time.perf_counter() - began)
"""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def aadd(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Listener:
    """Keeps what a block prints."""

    def __init__(self) -> None:
        self.text = ""

    def started(self, lane, at) -> None:
        pass

    def held(self, by) -> None:
        pass

    def output(self, output) -> None:
        self.text += output.text


class Ours:
    """Blocks in our kernel that call over the bridge."""

    name = "codeact-kernel"

    async def __aenter__(self) -> Ours:
        tools = as_tools([add, aadd])
        server = ToolServer(Catalogue(tools), {}, lambda event: None)

        async def serve(name, args, kwargs, msg_id, back):
            return await server.call(name, args, kwargs, Caller(None, msg_id, back.note, back.give))

        self.kernel = Kernel(
            KernelSettings(cwd=Path(tempfile.gettempdir())),
            serve,
            [tool.describe() for tool in tools.values()],
        )
        await self.kernel.__aenter__()
        self._runner, self._count = KernelRunner(self.kernel), 0
        self._ordinary = AsyncKernelClient()
        self._ordinary.load_connection_info(self.kernel.process.manager.get_connection_info())
        self._ordinary.start_channels()
        await self._ordinary.wait_for_ready()
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._ordinary.stop_channels()
        await self.kernel.__aexit__(None, None, None)

    async def _run(self, code: str, lane: str | None = None):
        self._count += 1
        listener = Listener()
        outcome = await self._runner.run(Job(f"b{self._count}", CodeBlock(code, lane=lane), 1), listener)  # type: ignore[arg-type]
        assert outcome.status == "ok", outcome.error
        return eval(listener.text)

    async def one_by_one(self) -> list[float]:
        return await self._run(ONE_BY_ONE, "main")

    async def awaited(self) -> list[float]:
        return await self._run(ONE_BY_ONE.replace("add", "await aadd"))

    async def gathered(self, count: int) -> float:
        return await self._run(GATHERED.format(count))

    async def kernel_info(self) -> list[float]:
        return await timed(lambda: self.kernel.client.request("kernel_info_request", {}), CALLS)

    async def ordinary_kernel_info(self) -> list[float]:
        async def ask() -> None:
            self._ordinary.kernel_info()
            await self._ordinary.get_shell_msg()

        return await timed(ask, CALLS)


class Peer:
    """Something that is called with two numbers, and awaited."""

    def __init__(self, name: str, call: Callable[[int, int], Awaitable[object]]) -> None:
        self.name = name
        self._call = call

    async def one_by_one(self) -> list[float]:
        return await timed(lambda: self._call(1, 1), CALLS)

    async def gathered(self, count: int) -> float:
        began = time.perf_counter()
        await asyncio.gather(*(self._call(i, 1) for i in range(count)))
        return time.perf_counter() - began


async def timed(call: Callable[[], Awaitable[object]], count: int) -> list[float]:
    """The seconds of each of so many calls."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        took.append(time.perf_counter() - began)
    return took


async def mcp_peer(stack: AsyncExitStack) -> Peer:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    read, write = await stack.enter_async_context(stdio_client(StdioServerParameters(**PARAMETERS)))
    session = await stack.enter_async_context(ClientSession(read, write))
    await session.initialize()
    return Peer("MCP server, stdio", lambda a, b: session.call_tool("add", {"a": a, "b": b}))


async def ipybox_peer(stack: AsyncExitStack) -> Peer:
    from mcpygen.tool_exec.client import ToolRunner
    from mcpygen.tool_exec.server import ToolServer as HttpServer

    await stack.enter_async_context(HttpServer(port=8931, log_level="ERROR"))
    runner = ToolRunner("adder", PARAMETERS, port=8931)
    await runner.run("add", {"a": 1, "b": 1})
    return Peer("ipybox's tool server", lambda a, b: runner.run("add", {"a": a, "b": b}))


async def main() -> None:
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(Ours())
        engines = [ours]
        if importlib.util.find_spec("mcpygen"):
            engines.append(await ipybox_peer(stack))
        if importlib.util.find_spec("mcp"):
            engines.append(await mcp_peer(stack))
        one: dict[str, list[float]] = {engine.name: [] for engine in engines}
        rates: dict[tuple[str, int], list[float]] = {}
        info: dict[str, list[float]] = {"kernel_info, ordinary client": [], "kernel_info, our client": []}
        awaited: list[float] = []
        for _ in range(ROUNDS):
            for take, asked in zip((ours.ordinary_kernel_info, ours.kernel_info), info.values(), strict=True):
                asked += await take()
                one[ours.name] += await ours.one_by_one()
            awaited += await ours.awaited()
            for engine in engines:
                if engine is not ours:
                    one[engine.name] += await engine.one_by_one()
                for count in (FEW, MANY):
                    rates.setdefault((engine.name, count), []).append(count / await engine.gathered(count))
    began = time.perf_counter()
    for i in range(CALLS):
        add(i, 1)
    floor = (time.perf_counter() - began) / CALLS
    trips = {name: statistics.median(took) for name, took in info.items()}
    print(f"{'':32} one by one    {FEW} at once    {MANY:,} at once, calls a second")
    print(f"{'in its own process':32} {floor * 1e6:7.2f} µs")
    for engine in engines:
        median = statistics.median(one[engine.name])
        few, many = (statistics.median(rates[engine.name, count]) for count in (FEW, MANY))
        print(f"{engine.name:32} {median * 1e3:7.3f} ms {few:13,.0f} {many:15,.0f}")
    print(f"{'  an async tool, awaited':32} {statistics.median(awaited) * 1e3:7.3f} ms")
    call = statistics.median(one[ours.name])
    for name, trip in trips.items():
        print(f"{name:32} {trip * 1e3:7.3f} ms    a call takes {call / trip:.2f} of it")


if __name__ == "__main__":
    asyncio.run(main())

"""One block, fifty at once, a thousand prints and a flood: our kernel beside others, in one run.

Ours and a stock ipykernel with a bare asynchronous client always run. ipybox and AutoGen's Jupyter executor run
where they are installed (`pip install ipybox "autogen-ext[jupyter-executor]"`). Each figure is the median of
rounds in which the engines take turns, so that a busy moment of the machine meets all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import statistics
import tempfile
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from jupyter_client.manager import AsyncKernelManager

from codeact_kernel.blocks import CodeBlock, Job, StreamOutput
from codeact_kernel.kernels import Kernel, KernelRunner, KernelSettings
from codeact_kernel.kernels.client import KernelClient

ROUNDS, TRIVIAL, AT_ONCE, PRINTS, WIDTH, LINES = 5, 100, 50, 1000, 8, 100_000
FLOOD = f"for i in range({LINES}): print('line', i)"


class Ours:
    """Our kernel."""

    name, concurrent = "codeact-kernel", True

    def __init__(self, kernel: Kernel) -> None:
        self._runner = KernelRunner(kernel)
        self._count = 0

    async def execute(self, code: str) -> str:
        self._count += 1
        texts: list[str] = []

        class Watcher:
            def started(self, lane, at):
                pass

            def output(self, output):
                if isinstance(output, StreamOutput):
                    texts.append(output.text)

        await self._runner.run(Job(f"b{self._count}", CodeBlock(code), self._count), Watcher())
        return "".join(texts)


class Waiting:
    """What one request of the bare client waits for: its reply and its idle."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.missing = {"reply", "idle"}
        self.end = asyncio.get_running_loop().create_future()

    def attach(self, msg_id, source) -> None:
        pass

    def on_iopub(self, message) -> None:
        if message["msg_type"] == "stream":
            self.texts.append(message["content"]["text"])
        elif message["content"].get("execution_state") == "idle":
            self._came("idle")

    def on_reply(self, message) -> None:
        self._came("reply")

    def on_state(self, state) -> None:
        raise AssertionError("a stock kernel says nothing of its state")

    def on_call(self, lane) -> None:
        raise AssertionError("a stock kernel calls nobody")

    def on_lost(self, error) -> None:
        self.end.set_exception(error)

    def _came(self, what: str) -> None:
        self.missing.discard(what)
        if not self.missing and not self.end.done():
            self.end.set_result(None)


class Bare:
    """A stock kernel, and an asynchronous client with one reader a socket that waits for reply and idle.

    jupyter_client's own asynchronous client loses replies when several requests are outstanding.
    """

    name, concurrent = "stock ipykernel, bare client", True

    def __init__(self, client: KernelClient) -> None:
        self._client = client

    async def execute(self, code: str) -> str:
        waiting = Waiting()
        self._client.execute(code, {}, waiting)
        await waiting.end
        return "".join(waiting.texts)


class Ipybox:
    """ipybox. It takes one call at a time."""

    name, concurrent = "ipybox", False

    def __init__(self, executor) -> None:
        self._executor = executor

    async def execute(self, code: str) -> str:
        return (await self._executor.execute(code)).text or ""


class AutoGen:
    """AutoGen's Jupyter executor. It takes one call at a time."""

    name, concurrent = "AutoGen", False

    def __init__(self, executor) -> None:
        self._executor = executor

    async def execute(self, code: str) -> str:
        from autogen_core import CancellationToken
        from autogen_core.code_executor import CodeBlock as Block

        result = await self._executor.execute_code_blocks(
            [Block(code=code, language="python")], CancellationToken()
        )
        return result.output


@asynccontextmanager
async def ours() -> AsyncIterator[Ours]:
    async with Kernel(KernelSettings(cwd=Path(tempfile.mkdtemp()))) as kernel:
        yield Ours(kernel)


@asynccontextmanager
async def bare() -> AsyncIterator[Bare]:
    folder = Path(tempfile.mkdtemp())
    manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=str(folder / "s"))
    await manager.start_kernel(extra_arguments=["--HistoryManager.enabled=False"])
    client = KernelClient(manager.get_connection_info())
    client.connect()
    try:
        await client.ready(60)
        yield Bare(client)
    finally:
        await client.aclose()
        await manager.shutdown_kernel(now=True)


@asynccontextmanager
async def ipybox() -> AsyncIterator[Ipybox]:
    from ipybox import CodeExecutor

    async with CodeExecutor() as executor:
        yield Ipybox(executor)


@asynccontextmanager
async def autogen() -> AsyncIterator[AutoGen]:
    from autogen_ext.code_executors.jupyter import JupyterCodeExecutor

    async with JupyterCodeExecutor() as executor:
        yield AutoGen(executor)


async def one_after_the_other(engine, count: int) -> float:
    """Seconds a trivial block."""
    begun = time.perf_counter()
    for _ in range(count):
        await engine.execute("pass")
    return (time.perf_counter() - begun) / count


async def all_at_once(engine, count: int) -> float:
    """Seconds a trivial block, many at once where the engine can."""
    if not engine.concurrent:
        return await one_after_the_other(engine, count)
    begun = time.perf_counter()
    await asyncio.gather(*(engine.execute("pass") for _ in range(count)))
    return (time.perf_counter() - begun) / count


async def empty_prints(engine) -> int:
    """How many of a thousand one-line prints come back without their line."""
    gate, empty = asyncio.Semaphore(WIDTH if engine.concurrent else 1), 0

    async def one(number: int) -> None:
        nonlocal empty
        async with gate:
            empty += (await engine.execute(f"print({number})")).strip() != str(number)

    await asyncio.gather(*(one(number) for number in range(PRINTS)))
    return empty


async def flood(engine) -> tuple[float, bool]:
    """Lines a second, and whether all of them came."""
    begun = time.perf_counter()
    text = await engine.execute(FLOOD)
    return LINES / (time.perf_counter() - begun), text.count("\n") >= LINES - 1


async def main() -> None:
    warnings.simplefilter("ignore")
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(make()) for make in (ours, bare)]
        for module, make in (("ipybox", ipybox), ("autogen_ext", autogen)):
            if importlib.util.find_spec(module):
                engines.append(await stack.enter_async_context(make()))
            else:
                print(f"({module} is not installed)")
        trivial = {e.name: [] for e in engines}
        together = {e.name: [] for e in engines}
        for engine in engines:
            await one_after_the_other(engine, 20)
        for _ in range(ROUNDS):
            for engine in engines:
                trivial[engine.name].append(await one_after_the_other(engine, TRIVIAL))
            for engine in engines:
                together[engine.name].append(await all_at_once(engine, AT_ONCE))
        stock_one, stock_all = (statistics.median(t[Bare.name]) for t in (trivial, together))
        print(f"{'':30} one block        {AT_ONCE} at once, each   empty of {PRINTS}   lines a second")
        for engine in engines:
            one, each = statistics.median(trivial[engine.name]), statistics.median(together[engine.name])
            empty = await empty_prints(engine)
            rate, whole = await flood(engine)
            print(
                f"{engine.name:30} {one * 1000:5.2f} ms {one / stock_one:5.2f} x  {each * 1000:5.2f} ms "
                f"{each / stock_all:5.2f} x  {empty:9}         {rate:12,.0f}{'' if whole else '  not all came'}"
            )
        print("x: of the stock kernel with the bare client. ipybox and AutoGen take one call at a time.")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())

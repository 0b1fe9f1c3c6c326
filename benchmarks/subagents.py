"""Kernels for sub-agents: how soon they work, and what they cost, beside a bare jupyter_client and a stock ipykernel.

From the moment in which a kernel is asked for to the first line of its first block, and from a `run_agent` block to the
first line of the sub-agent's first block, with a model that answers at once, the ways taking turns; the memory of the
tenth kernel of ten, each having run a block; and fifty kernels, and fifty sub-agents, alive at once, each having run a
block. The last column holds the bound that is promised.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from jupyter_client.manager import AsyncKernelManager

from codeact_kernel import Agent
from codeact_kernel.agent import Settings
from codeact_kernel.blocks import AgentBlock, CodeBlock, Job
from codeact_kernel.events import BlockQueued
from codeact_kernel.kernels import Kernel, KernelRunner, KernelSettings, KernelSource
from codeact_kernel.testing import Cast

ROUNDS, TEN, MANY = 7, 10, 50
CODE = "print('first line')"
BOUNDS = {"pooled": 0.05, "forked": 0.15, "run_agent, pooled": 0.05, "run_agent, forked": 0.15}
"""Shares of the bare one's time."""


async def until_first_line(kernel: Kernel) -> float:
    """Run a block; returns when its first output came."""
    first = asyncio.Event()

    class Watcher:
        def started(self, lane, at):
            pass

        def output(self, output):
            first.set()

    job = Job("first", CodeBlock(CODE), 1)
    task = asyncio.create_task(KernelRunner(kernel).run(job, Watcher()))
    await first.wait()
    said = time.perf_counter()
    await task
    return said


@asynccontextmanager
async def bare() -> AsyncIterator[tuple[int, float]]:
    """A stock kernel as jupyter_client starts it, over Unix sockets."""
    folder = Path(tempfile.mkdtemp())
    manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=str(folder / "s"))
    await manager.start_kernel(cwd=str(folder))
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=60)
        client.execute(CODE)
        while (await client.get_iopub_msg(timeout=60))["msg_type"] != "stream":
            pass
        yield manager.provisioner.pid, time.perf_counter()
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


@asynccontextmanager
async def ours(start) -> AsyncIterator[tuple[int, float]]:
    """One of our kernels, after its first line."""
    async with await start() as kernel:
        yield kernel.pid, await until_first_line(kernel)


class Parent:
    """An agent that starts a sub-agent whenever it is told.

    Args:
        ready: Kernels that are kept ready.
    """

    def __init__(self, ready: int) -> None:
        model = Cast(
            {
                "GO": self._coordinate,
                "SAY": ["<run_code>\nimport time\nprint(time.time())\n</run_code>", _last],
            }
        )
        settings = Settings(ready_kernels=ready, max_agent_depth=1)
        folder = tempfile.mkdtemp()
        self.agent = Agent(model, workspace=folder, run_dir=False, settings=settings, observers=[self._hear])
        self._queued = 0.0

    async def seconds(self) -> float:
        """From the block that starts one to its first line."""
        run = await self.agent.run("GO")
        return float(run.answer) - self._queued

    def _coordinate(self, request) -> str:
        last = request.messages[-1].content
        return (
            last.split(">", 1)[1].split("<")[0].strip()
            if "agent_result" in last
            else "<run_agent>\nSAY\n</run_agent>"
        )

    def _hear(self, event) -> None:
        if isinstance(event, BlockQueued) and isinstance(event.block, AgentBlock):
            self._queued = event.at


def _last(request) -> str:
    return request.messages[-1].content.split(">", 1)[1].split("<")[0].strip()


FAN_OUT = f"""
import asyncio
done = await asyncio.gather(*(self.run_agent(f"SAY {{n}}") for n in range({MANY})))
print(len(done))
"""
STAY = f"""
import pathlib, time
pathlib.Path(f"here-{{time.time_ns()}}").touch()
while len(list(pathlib.Path().glob("here-*"))) < {MANY}: time.sleep(0.05)
"""


async def many_agents() -> float:
    """Seconds until so many sub-agents, started at once from code, are alive, each having run a block."""
    code = ["<run_code>" + code + "</run_code>" for code in (FAN_OUT, STAY)]
    model = Cast({"GO": [code[0], "Done."], "SAY": [code[1], "Done."]})
    folder = Path(tempfile.mkdtemp())
    async with Agent(model, workspace=folder, run_dir=False) as agent:
        began = time.time()
        await agent.run("GO")
    return latest(folder) - began


def latest(folder: Path) -> float:
    """When the last of them had run a block."""
    return max(file.stat().st_mtime for file in folder.glob("here-*"))


def pss(pid: int) -> float:
    """Megabytes of a process, pages that it shares counted by its share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise OSError("no Pss")


async def seconds(way) -> float:
    """From asking to the first line."""
    asked = time.perf_counter()
    async with way() as (_, said):
        return said - asked


async def tenth(way) -> tuple[float, float]:
    """Megabytes of one that is alone, and of the tenth of ten."""
    async with AsyncExitStack() as stack:
        sizes = []
        for _ in range(TEN):
            pid, _ = await stack.enter_async_context(way())
            sizes.append(pss(pid))
        return sizes[0], sizes[-1]


async def many(way) -> float:
    """Seconds until all of many have run a block; all are alive then."""
    async with AsyncExitStack() as stack:
        asked = time.perf_counter()
        lives = await asyncio.gather(*(stack.enter_async_context(way()) for _ in range(MANY)))
        taken = time.perf_counter() - asked
        for pid, _ in lives:
            os.kill(pid, 0)
        return taken


async def main() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    settings = KernelSettings(cwd=Path(tempfile.mkdtemp()))
    async with (
        KernelSource(ready=0) as forking,
        KernelSource(ready=1) as pool,
        (of_forked := Parent(0)).agent,
        (of_ready := Parent(1)).agent,
    ):

        async def spawned() -> Kernel:
            return Kernel(settings)

        ways = {
            "pooled": lambda: ours(lambda: pool.take(settings)),
            "forked": lambda: ours(lambda: forking.take(settings)),
            "spawned": lambda: ours(spawned),
            "bare": bare,
        }
        for source in (forking, pool):
            async with await source.take(settings):
                pass
        timed = {name: partial(seconds, way) for name, way in ways.items()}
        timed |= {"run_agent, pooled": of_ready.seconds, "run_agent, forked": of_forked.seconds}
        for parent in (of_ready, of_forked):
            await parent.seconds()
        took: dict[str, list[float]] = {name: [] for name in timed}
        for _ in range(ROUNDS):
            for name, way in timed.items():
                # What a way leaves to be done in the background (the pool is filled) is not the next one's.
                await asyncio.sleep(1)
                took[name].append(await way())
        base = statistics.median(took["bare"])
        print(f"\n{'to the first line':<22}{'median':>10}{'least':>10}{'most':>10}{'of bare':>10}  bound")
        for name, times in took.items():
            middle = statistics.median(times)
            bound = f"{BOUNDS[name]:.0%}" if name in BOUNDS else ""
            print(
                f"{name:<22}{middle * 1e3:>7.0f} ms{min(times) * 1e3:>7.0f} ms{max(times) * 1e3:>7.0f} ms"
                f"{middle / base:>10.1%}  {bound}"
            )

        print(f"\n{'memory (PSS)':<22}{'the first':>12}{'the tenth':>12}{'of bare':>10}  bound")
        sizes = {name: await tenth(ways[name]) for name in ("forked", "spawned", "bare")}
        for name, (first, last) in sizes.items():
            bound = "50%" if name == "forked" else ""
            print(f"{name:<22}{first:>9.1f} MB{last:>9.1f} MB{last / sizes['bare'][1]:>10.0%}  {bound}")

        print(f"\n{f'{MANY} alive at once, each having run a block':<50}  bound")
        print(f"{'forked':<22}{await many(ways['forked']):>8.1f} s{'20 s':>25}")
        print(f"{'sub-agents, from code':<22}{await many_agents():>8.1f} s{'20 s':>25}")


asyncio.run(main())

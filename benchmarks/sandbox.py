"""What a sandbox costs: a kernel's start, and a block in it, in each mode side by side.

    python benchmarks/sandbox.py [--rounds 7]

Comes in: nothing. Goes out: medians, and each as a multiple of the same without a sandbox. All modes take turns in one
run, so that what else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.errors import ConfigError
from codeact_kernel.kernels import (
    Kernel,
    KernelRunner,
    KernelSettings,
    KernelSource,
    SandboxSettings,
    choose,
    choose_sandbox,
)
from codeact_kernel.kernels.process import environment_of

MODES = ("none", "limits", "landlock", "bwrap")
BLOCKS = {
    "pass": "pass",
    "2,000 times stat": "import os\nfor _ in range(2000): os.stat('.')",
    "a loop of 2 million": "n = 0\nfor i in range(2_000_000): n += i",
    "a child process": "import subprocess\nsubprocess.run(['/bin/true'])",
}


class Silent:
    """Hears nothing."""

    def started(self, lane, at):
        pass

    def held(self, by):
        pass

    def output(self, output):
        pass


async def seconds(work) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def sandboxes(workspace: Path):
    launch = await choose()
    env = environment_of(launch, KernelSettings())
    found = {}
    for mode in MODES:
        try:
            found[mode] = await choose_sandbox(SandboxSettings(mode), launch, workspace, env)
        except ConfigError as error:
            print(error)
    return launch, found


async def starts(launch, settings, source, rounds, times):
    """Start kernels, and end them."""
    for round_ in range(rounds + 1):
        for mode, wanted in settings.items():
            kernel = Kernel(wanted)
            spawned = await seconds(kernel.start(launch))
            await kernel.__aexit__(None, None, None)
            taken = {}

            async def take(taken=taken, wanted=wanted):
                taken["kernel"] = await source.take(wanted)

            forked = await seconds(take())
            await taken["kernel"].__aexit__(None, None, None)
            if round_:
                times.setdefault(("start, spawned", mode), []).append(spawned)
                times.setdefault(("start, forked", mode), []).append(forked)


async def blocks(settings, source, rounds, times):
    """Run blocks in kernels that live."""
    async with AsyncExitStack() as stack:
        runners = {}
        for mode, wanted in settings.items():
            runners[mode] = KernelRunner(await stack.enter_async_context(await source.take(wanted)))
        number = 0
        for round_ in range(rounds * 5 + 2):
            for name, code in BLOCKS.items():
                for mode, runner in runners.items():
                    number += 1
                    took = await seconds(runner.run(Job(f"b{number}", CodeBlock(code), number), Silent()))
                    if round_ > 1:
                        times.setdefault((name, mode), []).append(took)


async def main(rounds: int) -> None:
    times: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder).resolve()  # noqa: ASYNC240
        launch, found = await sandboxes(workspace)
        settings = {mode: KernelSettings(cwd=workspace, sandbox=sandbox) for mode, sandbox in found.items()}
        async with KernelSource(ready=0) as source:
            await starts(launch, settings, source, rounds, times)
            await blocks(settings, source, rounds, times)
    print(f"{'':24}" + "".join(f"{mode:>20}" for mode in settings))
    for name in dict.fromkeys(name for name, _ in times):
        base = statistics.median(times[name, "none"])
        row = [statistics.median(times[name, mode]) for mode in settings]
        print(f"{name:24}" + "".join(f"{value * 1000:>10.2f} ms {value / base:>5.2f} x" for value in row))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    asyncio.run(main(parser.parse_args().rounds))

"""What checkpoints cost: the time of each, first and unchanged, the memory of the copy, and what blocks notice.

python benchmarks/checkpoints.py
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.kernels import Checkpoints, Kernel, KernelRunner, KernelSettings
from codeact_kernel.runfiles import Folder

NAMESPACES = {
    "one number": "x = 1",
    "100 MB in one array": "import numpy as np\na = np.random.rand(12_500_000)",
    "300,000 dicts, 900,000 objects": "rows = [{'a': i, 'b': str(i), 'c': [i]} for i in range(300_000)]",
    "10,000 names": "for i in range(10_000): globals()[f'n{i}'] = [i]",
}
MOST = 2 * 10**9
BLOCKS = 200


class Nobody:
    """Hears of a block."""

    def started(self, lane: str, at: float) -> None:
        """As in `Watcher`."""

    def held(self, by: str | None) -> None:
        """As in `Watcher`."""

    def output(self, output: object) -> None:
        """As in `Watcher`."""


async def run(runner: KernelRunner, code: str, id: str = "b") -> float:  # noqa: A002
    """Run a block; returns its seconds."""
    began = time.perf_counter()
    outcome = await runner.run(Job(id, CodeBlock(code), 1), Nobody())
    assert outcome.status == "ok", outcome
    return time.perf_counter() - began


async def own_memory(pid: int, ended: asyncio.Event) -> int:
    """The most memory that a copy of a process has had for itself, in bytes."""
    most, kernel = 0, psutil.Process(pid)
    while not ended.is_set():
        for child in kernel.children():
            with contextlib.suppress(psutil.Error):
                most = max(most, child.memory_full_info().uss)
        await asyncio.sleep(0.01)
    return most


async def one(name: str, code: str) -> None:
    """Measure one namespace."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        run_folder = Folder.make(workspace / "run")
        async with Kernel(KernelSettings(cwd=workspace)) as kernel:
            runner = KernelRunner(kernel)
            checkpoints = kernel.checkpoints = Checkpoints(lambda: run_folder, MOST)
            await run(runner, code)
            times, ended = [], asyncio.Event()
            memory = asyncio.create_task(own_memory(kernel.pid or 0, ended))
            for _ in range(4):
                began = time.perf_counter()
                await checkpoints.take(kernel.process)
                times.append(time.perf_counter() - began)
                assert not checkpoints.fault, checkpoints.fault
            ended.set()
            size = sum(file.stat().st_size for file in (run_folder.path / "checkpoint" / "objects").iterdir())
            again = statistics.median(times[1:])
            print(
                f"{name}: first {times[0]:.2f} s, unchanged {again:.2f} s, {size / 1e6:.1f} MB on the disk, "
                f"{await memory / 1e6:.0f} MB of the copy's own"
            )


async def blocks(most: int, pause: float) -> list[float]:
    """Seconds of blocks, with checkpoints or without, with a namespace of 100 MB and 100,000 objects."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        run_folder = Folder.make(workspace / "run")
        async with Kernel(KernelSettings(cwd=workspace)) as kernel:
            runner = KernelRunner(kernel)
            await run(
                runner,
                "import numpy as np\na = np.random.rand(12_500_000)\nb = [[i] for i in range(100_000)]",
            )
            kernel.keep_checkpoints(Checkpoints(lambda: run_folder, most, at_end=False))
            times = []
            for _ in range(BLOCKS):
                times.append(await run(runner, "pass"))
                await asyncio.sleep(pause)
            return times


async def main() -> None:
    """Measure all."""
    for name, code in NAMESPACES.items():
        await one(name, code)
    for pause in (0.0, 0.05):
        for most in (0, MOST):
            times = sorted(await blocks(most, pause))
            median, late = statistics.median(times), times[int(0.99 * len(times))]
            print(
                f"{BLOCKS} blocks of `pass`, {pause:g} s apart, checkpoints {'on' if most else 'off'}: "
                f"median {1e3 * median:.2f} ms, 99 % within {1e3 * late:.1f} ms, longest {1e3 * times[-1]:.1f} ms"
            )


if __name__ == "__main__":
    asyncio.run(main())

"""Floods: what it takes to have all of a hundred megabytes, and of a million flushed lines.

Prints, for our kernel with a supervisor and a whole record, and for a bare asynchronous client that drains a stock
kernel, the seconds that each flood takes, the best of three; and of our host how much it grew, the longest stall
of its event loop, and what the record weighs. A stock kernel takes about a millisecond a flushed line, so there it
runs a fiftieth of them, and the million lines without flushing are shown beside.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sys
import tempfile
import time
from pathlib import Path

import psutil
from jupyter_client.manager import AsyncKernelManager

from codeact_kernel.agent.recording import JOURNAL, NOTEBOOK, OUTPUTS, Recording
from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.events import RunStarted, TurnStarted
from codeact_kernel.kernels import Kernel, KernelRunner, KernelSettings
from codeact_kernel.runfiles import Folder
from codeact_kernel.supervisor import Supervisor
from codeact_kernel.transcript import Transcript

TIMES = 3
FLOODS = {
    "one print of 100 MB": ('print("x" * 100_000_000)', 1),
    "1,000,000 flushed lines": ("for i in range(1_000_000): print(i, flush=True)", 50),
    "1,000,000 lines": ("for i in range(1_000_000): print(i)", 1),
    "20,000 displays of 1 kB": ("for i in range(20_000): display({'text/plain': f'{i:01000}'}, raw=True)", 1),
}
TEXTS = {
    "one print of 100 MB": "x" * 100_000_000 + "\n",
    "1,000,000 flushed lines": "".join(f"{i}\n" for i in range(1_000_000)),
    "1,000,000 lines": "".join(f"{i}\n" for i in range(1_000_000)),
    "20,000 displays of 1 kB": "".join(f"{i:01000}\n" for i in range(20_000)),
}
DIGESTS = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in TEXTS.items()}
TEXTS.clear()


class Ticker:
    """Looks every five milliseconds at how late it is, and at how large the process is."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.reset()

    def reset(self) -> None:
        self.before = self.peak = self._process.memory_info().rss
        self.stall = self.work = 0.0

    async def run(self) -> None:
        while True:
            before, worked = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.005)
            self.stall = max(self.stall, time.perf_counter() - before - 0.005)
            self.work = max(self.work, time.thread_time() - worked)
            self.peak = max(self.peak, self._process.memory_info().rss)


async def ours() -> dict[str, float]:
    """The best time of each flood, with everything kept and recorded."""
    best: dict[str, float] = {}
    ticker, transcript = Ticker(), Transcript()
    ticking = asyncio.create_task(ticker.run())
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        recording = Recording(Folder.make(run), transcript, report=print)
        await recording.opened()

        def emit(event: object) -> None:
            transcript.apply(event)  # type: ignore[arg-type]
            recording(event)  # type: ignore[arg-type]

        async with Kernel(KernelSettings(cwd=run)) as kernel:
            runners = {CodeBlock: KernelRunner(kernel)}
            async with Supervisor(runners, emit, folder=run / OUTPUTS) as supervisor:
                emit(RunStarted("flood", "flood", "", "", time.time()))
                emit(TurnStarted(1, time.time()))
                for name, (code, _) in FLOODS.items():
                    times = []
                    await asyncio.sleep(0.1)
                    ticker.reset()
                    for number in range(TIMES):
                        job = Job(f"{name}-{number}", CodeBlock(code), 1)
                        begun = time.perf_counter()
                        supervisor.launch(job, 1)
                        await supervisor.settled()
                        times.append(time.perf_counter() - begun)
                        await asyncio.sleep(0.5)
                    best[name] = min(times)
                    result = supervisor.results[job.id]
                    assert (result.status, result.outcome.missing) == ("ok", 0), result.outcome
                    grown = (ticker.peak - ticker.before) / 1e6
                    stall = f"{ticker.stall * 1000:3.0f} ms ({ticker.work * 1000:.0f} ms of work)"
                    digest = hashlib.sha256(supervisor.output(job.id).encode()).hexdigest()
                    whole = "whole" if digest == DIGESTS[name] else "NOT WHOLE"
                    print(f"{name:26} {whole}, host grew by {grown:3.0f} MB, longest stall {stall}")
        await recording.aclose()
        sizes = {n: (run / n).stat().st_size / 1e6 for n in (NOTEBOOK, JOURNAL)}
        spilled = sum(path.stat().st_size for path in (run / OUTPUTS).iterdir()) / 1e6
        print(", ".join(f"{n} {size:.1f} MB" for n, size in sizes.items()), f"and outputs {spilled:.0f} MB")
    ticking.cancel()
    return best


async def stock() -> dict[str, float]:
    """The best time in which a bare client has all of each flood from a stock kernel."""
    best: dict[str, float] = {}
    manager = AsyncKernelManager(kernel_name="python3")
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready()
    for name, (code, share) in FLOODS.items():
        code = code.replace("1_000_000", str(1_000_000 // share))
        times = []
        for _ in range(TIMES if share == 1 else 1):
            begun = time.perf_counter()
            request = client.execute(code)
            while True:
                message = await client.get_iopub_msg()
                if message["parent_header"].get("msg_id") != request or message["msg_type"] != "status":
                    continue
                if message["content"]["execution_state"] == "idle":
                    break
            times.append(time.perf_counter() - begun)
        best[name] = min(times) * share
    client.stop_channels()
    await manager.shutdown_kernel(now=True)
    return best


async def main() -> None:
    logging.disable()
    mine, theirs = await ours(), await stock()
    for name in FLOODS:
        print(
            f"{name:26} ours {mine[name]:7.2f} s   stock {theirs[name]:7.2f} s   {mine[name] / theirs[name]:.2f} x"
        )
    if "--json" in sys.argv:
        print(json.dumps({"ours": mine, "stock": theirs}))


if __name__ == "__main__":
    asyncio.run(main())

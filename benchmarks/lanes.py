"""Blocks side by side: twenty that await and two that sleep, against one of them.

Prints the time of one block of `await asyncio.sleep(1)`, of one of `time.sleep(1)`, and of twenty and two of
them at once in one kernel, with the ratio; then what a stock kernel does with the same twenty-two requests.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from jupyter_client.manager import AsyncKernelManager

from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.kernels import Kernel, KernelRunner, KernelSettings

AWAITS, SLEEPS = 20, 2
CODES = ["import asyncio\nawait asyncio.sleep(1)"] * AWAITS + ["import time\ntime.sleep(1)"] * SLEEPS


class Deaf:
    def started(self, lane, at):
        pass

    def output(self, output):
        pass


async def ours(codes: list[str]) -> list[float]:
    """Times of one awaiting block, one sleeping block, and all at once."""
    async with Kernel(KernelSettings(cwd=Path(tempfile.mkdtemp()))) as kernel:
        runner = KernelRunner(kernel)

        async def run(number: int, code: str) -> None:
            outcome = await runner.run(Job(f"b{number}", CodeBlock(code), number), Deaf())
            assert outcome.status == "ok", outcome.error

        times = []
        for batch in (codes[:1], codes[-1:], codes):
            begun = time.perf_counter()
            await asyncio.gather(*(run(len(times) * 100 + i, code) for i, code in enumerate(batch)))
            times.append(time.perf_counter() - begun)
        return times


async def stock(codes: list[str]) -> float:
    """Time of all requests at once in a stock kernel, with a bare asynchronous client."""
    manager = AsyncKernelManager(kernel_name="python3")
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready()
    begun = time.perf_counter()
    waiting = {client.execute(code) for code in codes}
    while waiting:
        waiting.discard((await client.get_shell_msg())["parent_header"].get("msg_id"))
    took = time.perf_counter() - begun
    client.stop_channels()
    await manager.shutdown_kernel(now=True)
    return took


async def main() -> None:
    one_await, one_sleep, all_ours = await ours(CODES)
    all_stock = await stock(CODES)
    print(f"one block of await asyncio.sleep(1)   {one_await:6.2f} s")
    print(f"one block of time.sleep(1)            {one_sleep:6.2f} s")
    print(
        f"{AWAITS} and {SLEEPS} at once, our kernel          {all_ours:6.2f} s   {all_ours / one_await:.2f} x one"
    )
    print(
        f"{AWAITS} and {SLEEPS} at once, a stock kernel      {all_stock:6.2f} s   {all_stock / one_await:.2f} x one"
    )


if __name__ == "__main__":
    asyncio.run(main())

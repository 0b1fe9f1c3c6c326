"""A kernel on which random programs are played, one after the other."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from faulty_wire import put_between
from hypothesis import note
from program_steps import SETUP
from random_programs import write

from codeact_kernel.kernels import Kernel, KernelSettings

PROBES = {
    "main": "print('it works')",
    "worker": "print('it works')",
    "async": "await asyncio.sleep(0)\nprint('it works')",
}


class Stage:
    """One kernel for many programs, and a fresh one after a program that came to no end.

    Args:
        make_bench: Makes a bench of a kernel.
        check: Holds what came of a program's blocks against their models: (blocks, what came by name).
        check_late: The same for what its blocks say after their end.
        folder: Where the kernel works.
    """

    def __init__(self, make_bench, check, check_late, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._make_bench = make_bench
        self._check, self._check_late = check, check_late
        self._folder = folder
        self._open: AsyncExitStack | None = None
        self._count = 0

    def play(self, program) -> None:
        """Run a program and hold it against its model."""
        self._count += 1
        blocks = write(program, f"p{self._count}")
        about = "--- {0.name}, lane {1.lane}, cancelled after {1.cancelled} ms\n{0.code}"
        note("\n".join(about.format(block, block.block) for block in blocks))
        self._runner.run(self._play(blocks))

    def close(self) -> None:
        """End the kernel."""
        self._runner.run(self._end())
        self._runner.close()

    async def _play(self, blocks) -> None:
        try:
            if self._open is None:
                await self._begin()
            async with asyncio.timeout(60):
                await self._hold(blocks)
        except AssertionError:
            # All its blocks have ended; what is left waits behind the gate.
            await self._open_gate(blocks[0].gate)
            raise
        except BaseException:
            await self._end()
            raise

    async def _begin(self) -> None:
        self._open = stack = AsyncExitStack()
        kernel = await stack.enter_async_context(Kernel(KernelSettings(cwd=self._folder)))
        self._wire = await put_between(kernel, kernel.process.folder / "w")
        stack.push_async_callback(self._wire.aclose)
        self._wire.reset()
        self._bench = self._make_bench(kernel)
        assert (await self._bench.run(SETUP)).status == "ok"

    async def _end(self) -> None:
        if self._open is not None:
            stack, self._open = self._open, None
            await stack.aclose()

    async def _hold(self, blocks) -> None:
        watched = await self._run_all(blocks)
        self._check(blocks, watched)
        await self._open_gate(blocks[0].gate)
        said = await self._bench.run("await all_said()")
        assert said.status == "ok", said.error
        await self._check_late(blocks, watched)
        for block in blocks:
            if block.block.captured and watched[block.name].status == "ok":
                await self._check_captured(block)
        for lane, code in PROBES.items():
            assert (await self._bench.run(code, lane=lane)).text == "it works\n"
        await self._count_replies()

    async def _run_all(self, blocks):
        watched, tasks = {}, []
        for block in blocks:
            heard, task = self._bench.start(
                block.code, id=block.name, reply=-self._count, lane=block.block.lane
            )
            watched[block.name] = heard
            tasks.append(task)
            if block.block.cancelled is not None:
                tasks.append(asyncio.create_task(self._cancel(block)))
        await self._open_gate(f"all of {blocks[0].gate}")
        await asyncio.gather(*tasks)
        return watched

    async def _open_gate(self, gate) -> None:
        await self._bench.run(f"gates.add('{gate}')", after=(), lane="worker")

    async def _cancel(self, block) -> None:
        await asyncio.sleep(block.block.cancelled / 1000)
        await self._bench.runner.interrupt(block.name)

    async def _check_captured(self, block) -> None:
        taken = f"taken_{block.name}"
        heard = await self._bench.run(f"print({taken}.stdout, {taken}.stderr, len({taken}.outputs), sep='|')")
        text = "".join(what for kind, what in block.shown if kind == "text")
        displays = sum(kind == "display" for kind, _ in block.shown)
        assert heard.text == f"{text}|{block.errors}|{displays}\n", block.code

    async def _count_replies(self) -> None:
        """Each request has had exactly one reply and one idle."""
        sent = self._wire.seen["execute_request"]
        while self._wire.seen["idle"] < sent:
            await asyncio.sleep(0.001)
        assert (self._wire.seen["execute_reply"], self._wire.seen["idle"]) == (sent, sent)

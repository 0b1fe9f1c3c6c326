"""Many kernels of one host."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from codeact_kernel.kernels import Kernel, KernelSettings

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("open_bench", ["spawned"], indirect=True)
async def test_ten_kernels_start_at_once_and_work_at_once(open_bench):
    async with asyncio.timeout(180):
        benches = await asyncio.gather(*(open_bench() for _ in range(10)))
    assert len({bench.kernel.pid for bench in benches}) == 10
    async with asyncio.timeout(60):
        blocks = await asyncio.gather(
            *(
                bench.run(f"import time\nn = {n}\ntime.sleep(0.5)\nprint(n)")
                for n, bench in enumerate(benches)
            )
        )
    assert [block.text for block in blocks] == [f"{n}\n" for n in range(10)]
    assert {block.status for block in blocks} == {"ok"}


async def test_ten_kernels_that_end_at_once_leave_no_process_and_no_folder(tmp_path):
    async def live():
        async with Kernel(KernelSettings(cwd=tmp_path, start_timeout=180)) as kernel:
            return psutil.Process(kernel.pid), kernel.process.folder

    async with asyncio.timeout(240):
        gone = await asyncio.gather(*(live() for _ in range(10)))
    assert not any(process.is_running() for process, _ in gone)
    assert not any(folder.exists() for _, folder in gone)

"""Nothing is left of a host that was killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from codeact_kernel.kernels.janitor import descendants

pytestmark = pytest.mark.kernel

HOST = """
import asyncio, sys
from pathlib import Path
from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.kernels import Kernel, KernelRunner, KernelSettings, make_folder

class Watcher:
    def started(self, lane, at): pass
    def output(self, output): print(output.text, end="", flush=True)

async def main():
    async with Kernel(KernelSettings(cwd=Path(sys.argv[1]))) as kernel:
        print("kernel", kernel.pid, kernel.process.folder, make_folder("ck-"), flush=True)
        await KernelRunner(kernel).run(Job("b", CodeBlock(sys.argv[2]), 1), Watcher())
        await asyncio.sleep(60)

asyncio.run(main())
"""

CHILDREN = (
    "import subprocess, sys\n"
    "a = subprocess.Popen(['sleep', '300'])\n"
    "b = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
    "c = subprocess.Popen(['sh', '-c', 'setsid sleep 300 & sleep 300'])\n"
    "import time; time.sleep(0.3)\n"
    "print('ready', flush=True); time.sleep(0.3)\n"
)
CODES = {
    "idle": CHILDREN,
    "holding the lock of the interpreter": CHILDREN + "x = 10 ** (10 ** 8)",
    "busy": CHILDREN + "while True: pass",
}


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def start_host(workspace: Path, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOST, str(workspace), code], stdout=subprocess.PIPE, text=True
    )


def test_a_process_that_cannot_be_looked_at_hides_no_other(tmp_path):
    for pid, parent, state in ((2, 1, "S"), (3, 2, "R"), (4, 3, "Z"), (5, 9, "S")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a ) b) {state} {parent} 0")
    (tmp_path / "6").mkdir()  # it has just ended
    (tmp_path / "7").symlink_to("x" * 300)  # an error that is neither "no such file" nor a refusal
    (tmp_path / "self").mkdir()
    assert descendants(1, str(tmp_path)) == [2, 3]
    assert descendants(1, str(tmp_path / "nowhere")) == []


@pytest.mark.parametrize("code", CODES)
async def test_a_killed_host_leaves_no_kernel_no_child_and_no_folder(tmp_path, code):
    process = start_host(tmp_path, CODES[code])
    assert process.stdout is not None
    with process.stdout:
        _, pid, *folders = (await asyncio.to_thread(process.stdout.readline)).split()
        assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
        family = [int(pid), *descendants(int(pid))]
        assert len(family) >= 5
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        async with asyncio.timeout(5):
            while any(map(alive, family)) or any(Path(folder).exists() for folder in folders):
                await asyncio.sleep(0.05)


async def test_a_kernel_that_ended_properly_is_left_alone(bench):
    """Its process id may be somebody else's by then."""
    pid = bench.kernel.pid
    await bench.kernel._stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not bench.kernel.process._is_watched

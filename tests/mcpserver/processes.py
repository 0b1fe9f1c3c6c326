"""`codeact mcp` as a process, and what is left of it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
from mcp import Client
from mcp.client.stdio import StdioServerParameters

COMMAND = ["-m", "codeact_kernel.cli", "mcp"]
PATIENCE = 30.0
"""Seconds after which something that did not happen will not happen."""


@asynccontextmanager
async def served(folder, *options, mode="auto", caller):
    """A client of a server on stdio."""
    env = {"XDG_CONFIG_HOME": str(folder / "none"), "MY_KEY": "secret"}
    parameters = StdioServerParameters(
        command=sys.executable, args=[*COMMAND, "--workspace", str(folder), *options], env=env
    )
    async with asyncio.timeout(120), Client(parameters, mode=mode) as client:
        yield caller(client)


LIFE = "import os, subprocess\nchild = subprocess.Popen(['sleep', '1000'])\nprint(os.getpid(), child.pid)"
"""A block that leaves a child running, and tells of it and of its kernel."""


class Life:
    """The kernel and the child of a block, and the kernel's folder.

    Args:
        text: What `LIFE` has printed.
    """

    def __init__(self, text):
        pids = next(line for line in text.splitlines() if line.replace(" ", "").isdigit()).split()
        self.processes = [psutil.Process(int(pid)) for pid in pids]
        line = self.processes[0].cmdline()
        self.folder = next(Path(part).parent for part in line if part.endswith("kernel.json"))
        assert self.folder.exists()

    def check_gone(self):
        """Wait until nothing of it is left."""
        _, alive = psutil.wait_procs(self.processes, timeout=PATIENCE)
        assert alive == []
        end = time.monotonic() + PATIENCE
        while self.folder.exists() and time.monotonic() < end:
            os.sched_yield()
        assert not self.folder.exists()

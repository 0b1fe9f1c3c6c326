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
async def served(folder, *options, mode="auto", caller, **of_client):
    """A client of a server on stdio."""
    env = {"XDG_CONFIG_HOME": str(folder / "none"), "MY_KEY": "secret"}
    env["CODEACT_DATA_DIR"] = os.environ["CODEACT_DATA_DIR"]
    parameters = StdioServerParameters(
        command=sys.executable, args=[*COMMAND, "--workspace", str(folder), *options], env=env
    )
    async with asyncio.timeout(120), Client(parameters, mode=mode, **of_client) as client:
        yield caller(client)


LIFE = (
    "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])\n"
    "print(get_ipython().kernel.parent.abs_connection_file)"
)
"""A block that leaves a child running, and tells of its kernel: by its file, for in a sandbox ids are others."""


class Life:
    """The kernel and the child of a block, and the kernel's folder.

    Args:
        text: What `LIFE` has printed.
    """

    def __init__(self, text):
        file = next(line for line in text.splitlines() if line.endswith("kernel.json"))
        kernels = [process for process in psutil.process_iter() if file in _command(process)]
        self.processes = [
            *kernels,
            *(child for kernel in kernels for child in kernel.children(recursive=True)),
        ]
        assert any("sleep" in _command(process) for process in self.processes)
        self.folder = Path(file).parent
        assert self.folder.exists()

    def check_gone(self):
        """Wait until nothing of it is left."""
        _, alive = psutil.wait_procs(self.processes, timeout=PATIENCE)
        assert alive == []
        end = time.monotonic() + PATIENCE
        while self.folder.exists() and time.monotonic() < end:
            os.sched_yield()
        assert not self.folder.exists()


def _command(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""

"""Servers of the SDK in memory, and programs that misbehave; nothing of them may be left."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path

import psutil
import pytest

from codeact_kernel.runfiles import Folder
from codeact_kernel.tools.mcp.config import Server
from codeact_kernel.tools.mcp.listing import ListingCache
from codeact_kernel.tools.mcp.log import ServerLog
from codeact_kernel.tools.mcp.names import Secrets
from codeact_kernel.tools.mcp.server import McpServer
from codeact_kernel.tools.mcp.toolset import McpToolset

if importlib.util.find_spec("mcp.client") is None:
    collect_ignore_glob = ["test_*.py"]

RAW = Path(__file__).with_name("raw_server.py")


@pytest.fixture
async def nothing_left():
    """No task and no process of a test outlives it."""
    before = asyncio.all_tasks()
    children = set(psutil.Process().children(recursive=True))
    yield
    # What has been cancelled by the end of its owner has still to run once.
    await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - {asyncio.current_task()} - before
    # One is left by the library with which the SDK's server sends events.
    assert not [task for task in tasks if task.get_coro().__name__ != "_shutdown_watcher"]
    left = set(psutil.Process().children(recursive=True)) - children
    assert not [p for p in left if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
async def opened(nothing_left):
    """Makes toolsets, and closes them."""
    made = []

    def add(server, connect=None, *, log=None, notice=lambda text: None, **more):
        log = log or ServerLog(server.name, lambda: None, server.secrets)
        made.append(McpToolset(McpServer(server, log, notice=notice, connect=connect, **more)))
        return made[-1]

    yield add
    for toolset in made:
        await toolset.aclose()


@pytest.fixture
def in_memory(opened):
    """Makes a toolset of a server object of the SDK."""
    from mcp.client._memory import InMemoryTransport

    def make(server, name="demo", **options):
        settings = {key: options.pop(key) for key in ("timeout", "start_timeout") if key in options}
        described = Server(name=name, url="http://in.memory", key=name, **settings)
        return opened(described, lambda: InMemoryTransport(server), **options)

    return make


@pytest.fixture
def program(opened, tmp_path):
    """Makes a toolset of the program beside this file."""

    def make(mode="", *, name="raw", env=None, logs=None, **options):
        settings = {
            key: options.pop(key)
            for key in ("timeout", "start_timeout", "max_result", "command")
            if key in options
        }
        secrets = Secrets((env or {}).values())
        settings.setdefault("command", (sys.executable, "-S", "-E", str(RAW), mode))
        described = Server(name=name, cwd=tmp_path, env=env or {}, key=name, secrets=secrets, **settings)
        return opened(described, log=ServerLog(name, lambda: logs and Folder.make(logs), secrets), **options)

    return make


@pytest.fixture
def cache(tmp_path):
    return ListingCache(tmp_path / "cache")


@pytest.fixture
def call():
    """Calls a tool of a toolset by its name."""

    async def run(toolset, name, **arguments):
        async with asyncio.timeout(30):
            return await (await toolset.tools())[name].function(**arguments)

    return run

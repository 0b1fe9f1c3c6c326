"""Tools of MCP servers in blocks of an agent."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil
import pytest

from codeact_kernel import Agent
from codeact_kernel.testing import ScriptedModel

pytestmark = pytest.mark.kernel
RAW = Path(__file__).with_name("raw_server.py")


def servers(*names):
    return {
        "mcpServers": {name: {"command": sys.executable, "args": ["-S", "-E", str(RAW)]} for name in names}
    }


async def read(tmp_path, monkeypatch, *blocks, **options):
    """What the model reads of each block."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = ScriptedModel([*blocks, "Done."])
    async with Agent(model, workspace=tmp_path, **options) as agent:
        await agent.run("Go on.")
    assert not [p for p in psutil.Process().children(recursive=True) if str(RAW) in p.cmdline()]
    return [request.messages[-1].content for request in model.requests[1:]]


async def test_a_block_that_is_stopped_cancels_its_call_at_the_server(tmp_path, monkeypatch):
    stopped, after = await read(
        tmp_path,
        monkeypatch,
        '<run_code timeout="1s">\nmcp.raw.echo()\nmcp.raw.sleep(seconds=60)\n</run_code>',
        "<run_code>\nprint(mcp.raw.cancelled())\n</run_code>",
        mcp=servers("raw"),
    )
    assert 'status="timeout"' in stopped
    assert len(json.loads(after.splitlines()[1])) == 1


async def test_whatever_a_server_does_is_an_error_that_a_block_can_catch(tmp_path, monkeypatch):
    code = """<run_code>
for name, arguments in [("big", {"size": 20_000_000}), ("broken", {}), ("die", {}), ("echo", {"a": 1})]:
    result = tools.call(f"mcp:raw:{name}", arguments)
    print(name, result.ok, str(result.value or result.error)[:60])
</run_code>"""
    (result,) = await read(tmp_path, monkeypatch, code, mcp=servers("raw"))
    assert result.splitlines()[1:5] == [
        "big False mcp.raw.big: the answer has 20 MB; at most 10 MB are taken",
        "broken False mcp.raw.broken: the answer is broken: it is no JSON",
        "die False mcp.raw.die: the server ended before it answered, so it is n",
        'echo True {"a": 1}',
    ]
    (log,) = tmp_path.glob(".codeact/runs/*/mcp/raw.log")
    assert "about to die" in log.read_text()


async def test_servers_with_the_same_tools_are_called_side_by_side(tmp_path, monkeypatch):
    code = """<run_code>
import asyncio, time
begun = time.monotonic()
calls = [asyncio.to_thread(group.sleep, seconds=0.5) for group in (mcp.one, mcp.two) for _ in range(5)]
print(await asyncio.gather(*calls))
print(time.monotonic() - begun < 4, mcp.one.pid() != mcp.two.pid())
</run_code>"""
    (result,) = await read(tmp_path, monkeypatch, code, mcp=servers("one", "two"))
    assert result.splitlines()[1:3] == [str(["slept"] * 10), "True True"]

"""What the audit adds to a trivial tool call, and masking with it, in one run.

The tool adds two numbers. The same block calls it one after the other, and gathered, in three agents: without an audit,
with one that does not wait for the disk, and with one that does. They are measured in turns, so that what else the
machine does hits all of them; the figures are medians. The disk by itself is printed as the floor of the last: an
append and an fdatasync in the same folder.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from codeact_kernel import Agent
from codeact_kernel.agent import Settings
from codeact_kernel.blocks import StreamOutput
from codeact_kernel.events import BlockOutput, Event
from codeact_kernel.testing import ScriptedModel

CALLS, ROUNDS = 200, 9
CODE = f"""<run_code>
import asyncio, time
took = []
for i in range({CALLS}):
    began = time.perf_counter()
    assert add(i, 1) == i + 1
    took.append(time.perf_counter() - began)
began = time.perf_counter()
await asyncio.gather(*(aadd(i, 1) for i in range({CALLS})))
print(sorted(took)[{CALLS} // 2], (time.perf_counter() - began) / {CALLS})
</run_code>"""
KINDS = {
    "no audit": Settings(audit="off"),
    "without sync": Settings(audit_sync=False),
    "with sync": Settings(),
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def aadd(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def disk(folder: Path) -> float:
    """Seconds of an append and an fdatasync."""
    took, fd = [], os.open(folder / "floor", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for _ in range(CALLS):
        began = time.perf_counter()
        os.write(fd, b"x" * 400)
        os.fdatasync(fd)
        took.append(time.perf_counter() - began)
    os.close(fd)
    return statistics.median(took)


async def main() -> None:
    """Measure and print."""
    os.environ["BENCHMARK_API_KEY"] = "sk-0123456789abcdefghijklmnopqrstuvwxyz"
    one: dict[str, list[float]] = {kind: [] for kind in KINDS}
    many: dict[str, list[float]] = {kind: [] for kind in KINDS}
    floor, printed = [], ""

    def listen(event: Event) -> None:
        nonlocal printed
        if isinstance(event, BlockOutput) and isinstance(event.output, StreamOutput):
            printed += event.output.text

    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        agents = {}
        for kind, settings in KINDS.items():
            model = ScriptedModel([CODE, "ok"] * (ROUNDS + 1))
            fields = {"workspace": folder, "settings": settings, "observers": [listen]}
            agents[kind] = await stack.enter_async_context(Agent(model, tools=[add, aadd], **fields))
        for number in range(ROUNDS + 1):
            floor.append(disk(folder))
            for kind, agent in agents.items():
                printed = ""
                await agent.run("Add.")
                if number:  # the first one warms up
                    each, gathered = map(float, printed.split())
                    one[kind].append(each)
                    many[kind].append(gathered)
    print(f"the disk by itself   {statistics.median(floor) * 1e3:6.3f} ms")
    for kind in KINDS:
        each, gathered = statistics.median(one[kind]) * 1e3, statistics.median(many[kind]) * 1e3
        base = statistics.median(one["no audit"]) * 1e3
        more = f"{each - base:+.3f} ms ({(each / base - 1) * 100:+.1f} %)"
        print(f"{kind:<20} {each:6.3f} ms a call, {more:<22}  {gathered:6.3f} ms a gathered call")


if __name__ == "__main__":
    asyncio.run(main())

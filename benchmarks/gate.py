"""What the gate adds to a trivial tool call, and the audit with it, side by side in one run.

The tool adds two numbers, and a block of a real kernel calls it one after the other, and gathered. Each host has a
kernel of its own and a journal, as a run has one: without a gate, with one (mode auto and the built-in rules, as by
default), with a rule that looks at each call's arguments, with the audit besides that does not wait for the disk, and
with the one that does. All are measured in turns, in an order that changes, so that what else the machine does hits all
of them; the figures are medians over rounds.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import tomllib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from codeact_kernel.agent.serving import answering
from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.events import Event
from codeact_kernel.kernels import Kernel, KernelRunner, KernelSettings
from codeact_kernel.policy import Audit, Doors, Gate, read_rules
from codeact_kernel.record import Journal
from codeact_kernel.runfiles import Folder
from codeact_kernel.signing import Signer
from codeact_kernel.tools import Catalogue, ToolServer, as_tools, tool

CALLS, MANY, ROUNDS = 300, 1000, 15
CODE = f"""
import asyncio, time
took = []
for i in range({CALLS}):
    began = time.perf_counter()
    assert add(i, 1) == i + 1
    took.append(time.perf_counter() - began)
print(sorted(took)[{CALLS} // 2])
"""
GATHERED = f"""
import asyncio, time
began = time.perf_counter()
await asyncio.gather(*(aadd(i, 1) for i in range({MANY})))
print((time.perf_counter() - began) / {MANY})
"""
RULE = '[[deny]]\ntool = "*add"\narguments = { a = "-*" }\n'
BASE = "no gate"


@tool(kind="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(kind="read")
async def aadd(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Listener:
    """Keeps what a block prints."""

    def __init__(self) -> None:
        self.text = ""

    def started(self, lane: str, at: float) -> None:
        pass

    def held(self, by: str | None) -> None:
        pass

    def output(self, output: object) -> None:
        self.text += getattr(output, "text", "")


async def host(
    stack: AsyncExitStack, folder: Path, *, gate: Gate | None = None, audit: Audit | None = None
) -> Callable[[str], Awaitable[float]]:
    """A kernel with its host; gives what runs code there and returns the number that it prints."""
    await asyncio.to_thread(folder.mkdir)
    journal = stack.enter_context(Journal(folder / "journal.jsonl", report=lambda error: print(error)))
    if audit is not None:
        audit.open(Folder.make(folder), "audit.jsonl", Signer(b"x" * 32))
        stack.callback(audit.close)

    def emit(event: Event) -> None:
        if audit is not None:
            audit(event, "the agent")
        journal(event)

    doors = None if gate is None else Doors(gate, "the agent", emit)
    settled = None if audit is None else audit.settled
    judging: dict[str, Any] = {} if doors is None else {"gate": doors.call, "passes": doors.passes}
    server = ToolServer(Catalogue(as_tools([add, aadd])), {}, emit, audited=settled, **judging)
    serve = answering(server, lambda: runner)
    described = [made.describe() for made in as_tools([add, aadd]).values()]
    kernel = await stack.enter_async_context(Kernel(KernelSettings(cwd=folder), serve, described))
    runner = KernelRunner(kernel)
    number = 0

    async def run(code: str) -> float:
        nonlocal number
        number += 1
        listener = Listener()
        outcome = await runner.run(Job(f"b{number}", CodeBlock(code), number), listener)
        assert outcome.status == "ok", outcome.error
        return float(listener.text)

    return run


async def main() -> None:
    """Measure and print."""
    async with AsyncExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rules = read_rules(tomllib.loads(RULE), "here")
        wanted: dict[str, tuple[Gate | None, Audit | None]] = {
            BASE: (None, None),
            "gate": (Gate(place), None),
            "gate, a rule": (Gate(place, rules=rules), None),
            "gate and audit": (Gate(place), Audit(sync=False)),
            "and its sync": (Gate(place), Audit()),
        }
        hosts, one, many = {}, {}, {}
        for number, (name, (gate, audit)) in enumerate(wanted.items()):
            hosts[name] = await host(stack, place / str(number), gate=gate, audit=audit)
            one[name], many[name] = list[float](), list[float]()
        for turn in range(ROUNDS + 1):
            for name in random.sample(list(hosts), len(hosts)):
                each, gathered = await hosts[name](CODE), await hosts[name](GATHERED)
                if turn:  # the first one warms up
                    one[name].append(each)
                    many[name].append(gathered)
    bare, bare_many = statistics.median(one[BASE]), statistics.median(many[BASE])
    for name, took in one.items():
        gathered = statistics.median(many[name])
        more = statistics.median(a - b for a, b in zip(took, one[BASE], strict=True))
        print(
            f"{name:<16}{statistics.median(took) * 1e3:7.3f} ms a call  {more * 1e6:+7.0f} µs {more / bare:+7.1%}   "
            f"{gathered * 1e6:6.0f} µs a gathered one ({gathered / bare_many:.2f} times)"
        )


if __name__ == "__main__":
    asyncio.run(main())

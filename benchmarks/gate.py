"""What the gate adds to a trivial tool call, and the audit with it, side by side in one run.

The tool adds two numbers. A block of a real kernel calls it in a row, and gathered, by ways that differ in what the
host does besides: nothing, a gate (mode auto and the built-in rules, as by default), a gate with a rule that looks at
each call's arguments, a gate and an audit that does not wait for the disk, and one that does. All have a journal, as a
run has one.

What else the machine does is many times what is measured. So the ways take turns every few calls, in an order that
changes; each round compares them with the one without a gate in the same round; the figures are medians over rounds.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import tomllib
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from codeact_kernel.agent.serving import answering
from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.events import Event
from codeact_kernel.kernels import Back, Kernel, KernelRunner, KernelSettings, Serve
from codeact_kernel.policy import Audit, Doors, Gate, read_rules
from codeact_kernel.record import Journal
from codeact_kernel.runfiles import Folder
from codeact_kernel.signing import Signer
from codeact_kernel.tools import Catalogue, Tool, ToolServer, as_tools, tool

WAYS = ("no gate", "gate", "gate, a rule", "gate and audit", "and its sync")
PAUSE = 0.02
"""Seconds: an audit that does not wait for the disk writes what is left a hundredth of a second later."""
CALLS, ROUNDS, MANY, GATHERS = 200, 100, 200, 40
CODE = """
import asyncio, json, random, time
tools = [{tools}]
took = [[] for _ in tools]
for turn in range({rounds} + 1):
    for n in random.sample(range(len(tools)), len(tools)):
        add = tools[n]
        {await_}add(0, 1)
        time.sleep({pause})  # whatever the way before has left is over
        began = time.perf_counter()
        {calls}
        if turn:  # the first one warms up
            took[n].append((time.perf_counter() - began) / {count})
print(json.dumps(took))
"""
ONE = {
    "name": "add",
    "await_": "",
    "calls": f"for i in range({CALLS}): add(i, 1)",
    "count": CALLS,
    "rounds": ROUNDS,
    "pause": PAUSE,
}
GATHERED = {
    "name": "aadd",
    "await_": "await ",
    "calls": f"await asyncio.gather(*(add(i, 1) for i in range({MANY})))",
    "count": MANY,
    "rounds": GATHERS,
    "pause": PAUSE,
}
RULE = '[[deny]]\ntool = "*add*"\narguments = { a = "-*" }\n'


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


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


def tools_of(way: int) -> dict[str, Tool]:
    """The tools by one way: their names tell it."""
    return as_tools(
        replace(tool(function, kind="read"), name=f"{function.__name__}_{way}") for function in (add, aadd)
    )


def server(way: int, gate: Gate | None, audit: Audit | None, journal: Journal) -> ToolServer:
    """What answers calls by one way."""

    def emit(event: Event) -> None:
        if audit is not None:
            audit(event, "the agent")
        journal(event)

    doors = None if gate is None else Doors(gate, "the agent", emit)
    judging: dict[str, Any] = {} if doors is None else {"gate": doors.call, "passes": doors.passes}
    settled = None if audit is None else audit.settled
    return ToolServer(Catalogue(tools_of(way)), {}, emit, audited=settled, **judging)


async def measure(stack: AsyncExitStack, place: Path) -> list[list[list[float]]]:
    """The seconds of a call: one after the other and gathered, by way and round."""
    journal = stack.enter_context(Journal(place / "journal.jsonl", report=lambda error: print(error)))
    audits = Audit(sync=False), Audit()
    for number, audit in enumerate(audits):
        audit.open(Folder.make(place), f"audit{number}.jsonl", Signer(b"x" * 32))
        stack.callback(audit.close)
    strict = Gate(place, rules=read_rules(tomllib.loads(RULE), "here"))
    parts = [(None, None), (Gate(place), None), (strict, None), *((Gate(place), audit) for audit in audits)]
    servers = [
        answering(server(way, gate, audit, journal), lambda: runner)
        for way, (gate, audit) in enumerate(parts)
    ]

    async def serve(
        name: str, args: Sequence[Any], kwargs: dict[str, Any], of: str | None, back: Back
    ) -> Any:
        answer: Serve = servers[int(name[-1])]
        return await answer(name, args, kwargs, of, back)

    described = [made.describe() for way in range(len(WAYS)) for made in tools_of(way).values()]
    kernel = await stack.enter_async_context(Kernel(KernelSettings(cwd=place), serve, described))
    runner = KernelRunner(kernel)
    took = []
    for number, how in enumerate((ONE, GATHERED), 1):
        listener = Listener()
        code = CODE.format(tools=", ".join(f"{how['name']}_{way}" for way in range(len(WAYS))), **how)
        outcome = await runner.run(Job(f"b{number}", CodeBlock(code), number), listener)
        assert outcome.status == "ok", outcome.error
        took.append(json.loads(listener.text))
    return took


def more(took: list[float], than: list[float]) -> tuple[float, float]:
    """How much longer, in seconds and as a share."""
    seconds = statistics.median(a - b for a, b in zip(took, than, strict=True))
    return seconds, seconds / statistics.median(than)


async def main() -> None:
    """Measure and print."""
    async with AsyncExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ones, gathers = await measure(stack, place)
    for name, one, gathered in zip(WAYS, ones, gathers, strict=True):
        seconds, share = more(one, ones[0])
        print(
            f"{name:<16}{statistics.median(one) * 1e3:7.3f} ms a call  {seconds * 1e6:+7.1f} µs {share:+7.1%}   "
            f"{statistics.median(gathered) * 1e6:6.0f} µs a gathered one {more(gathered, gathers[0])[1]:+7.1%}"
        )


if __name__ == "__main__":
    asyncio.run(main())

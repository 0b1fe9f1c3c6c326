"""A run of many turns against an endpoint that fails now and then: does anything grow?

    python benchmarks/soak.py --turns 10000

The real `Agent` with a real kernel, its record, its journal and its audit, asked over HTTP by an endpoint of its own
process. Each turn runs a block that prints some hundred characters and keeps a list in the namespace; the model
compacts when it is reminded. One call in twenty fails: 429 with Retry-After, 500, a connection that is dropped, bytes
that are no JSON, an empty reply, thoughts alone, a reply that is cut in the middle of its block.

For each tenth of the run it prints the host's memory (resident, at the end), the median time of a turn that did not
fail, the largest context, the open files, threads and child processes. It ends with 1 if a bound does not hold: memory
in the last tenth within 5 % of that in the second (15 % in a short run); the median of a turn within a half more; the
context below the threshold and one message; files, threads and processes no more than in the second tenth and a
handful; the block of each step has run, and once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import psutil

from codeact_kernel import Agent
from codeact_kernel.blocks import StreamOutput
from codeact_kernel.events import BlockFinished, Event, Knowledge, ModelRetry, TurnStarted
from codeact_kernel.testing import EndpointReply, ScriptedEndpoint
from codeact_kernel.testing.replies import Recorded, failing

THRESHOLD, MESSAGE = 16_000, 2_500
"""Tokens from which the model is reminded to compact, and of the longest message: a result is cut at 2,000."""
HANDFUL = 8
LONG = 5_000
"""Turns from which the bound of memory is 5 %: in the first few hundred what is kept of the latest still fills up."""


class Story:
    """What the model says: step after step, by what it has read; now and then it fails.

    Args:
        turns: Steps.
        faults: The share of calls that fail.
    """

    def __init__(self, turns: int, faults: float) -> None:
        self._turns = turns
        self._faults = faults
        self._random = Random(1)
        self.endpoint = ScriptedEndpoint(self)

    def __call__(self, request: Recorded) -> str | EndpointReply:
        self.endpoint.requests.clear()
        texts = [str(message["content"]) for message in request.messages[1:]]
        done = max(int(number) for text in ("step 0 ", *texts) for number in DONE.findall(text))
        block = self._block(done + 1)
        if request.messages[-1]["role"] == "assistant" or texts[-1].startswith("Your reply was cut off"):
            said = next(text for text in reversed(texts[:-1] if len(texts) > 1 else texts) if text)
            return block.removeprefix(said) if block.startswith(said) else block
        if "<reminder>" in texts[-1]:
            said = f"<run_code>\nself.compact_knowledge('step {done} of many is done; go on.')\n</run_code>"
        elif done == self._turns:
            said = f"All {self._turns} steps are done."
        else:
            said = block
        if done and self._random.random() < self._faults:
            fault = self._random.choice(FAULTS)
            if isinstance(fault, EndpointReply):
                return fault
            return EndpointReply(said, breaks="close", at=len(said) // 2)
        return said

    @staticmethod
    def _block(step: int) -> str:
        return (
            f"Step {step}.\n<run_code>\nsteps = [*globals().get('steps', [])[-99:], {step}]\n"
            f"print('step', {step}, 'of many', 'x' * 300)\n</run_code>"
        )


DONE = re.compile(r"step (\d+) (?:of many)?")
FAULTS: tuple[EndpointReply | str, ...] = (
    failing(429, "slow down", retry_after=1),
    failing(500, "an error of ours"),
    EndpointReply(breaks="drop"),
    EndpointReply(breaks="malformed"),
    EndpointReply(""),
    EndpointReply("", thought="What now?"),
    "cut",
)


@dataclass
class Tenth:
    """What was seen in a tenth of the run."""

    took: list[float] = field(default_factory=list)
    context: int = 0
    memory: int = 0
    files: int = 0
    threads: int = 0
    processes: int = 0


class Watch:
    """Sees a run.

    Args:
        turns: How many turns it is expected to take.
    """

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self._me = psutil.Process()
        self._last = 0.0
        self._failed = True
        self.tenths = [Tenth() for _ in range(10)]
        self.steps: Counter[int] = Counter()
        self.compactions = self.failures = 0

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._turn(event)
            case ModelRetry():
                self._failed, self.failures = True, self.failures + 1
            case BlockFinished():
                text = "".join(o.text for o in event.result.outputs if isinstance(o, StreamOutput))
                self.steps.update(int(number) for number in re.findall(r"^step (\d+) ", text, re.MULTILINE))
            case _:
                self.compactions += isinstance(getattr(event, "entry", None), Knowledge)

    def _turn(self, event: TurnStarted) -> None:
        tenth, now = self.tenths[min(9, event.turn * 10 // self.turns)], time.perf_counter()
        if not self._failed:
            tenth.took.append(now - self._last)
        self._last, self._failed = now, False
        tenth.context = max(tenth.context, event.context_tokens)
        if event.turn % max(1, self.turns // 100) == 0:
            tenth.memory, tenth.threads = self._me.memory_info().rss, self._me.num_threads()
            tenth.files, tenth.processes = self._me.num_fds(), len(self._me.children(recursive=True))


async def run(turns: int, base_url: str) -> Watch:
    """Run it."""
    watch = Watch(turns)
    with tempfile.TemporaryDirectory() as folder:
        async with Agent(model="soak", base_url=base_url, workspace=folder, observers=[watch]) as agent:
            done = await agent.run("Do all the steps.")
            taken = agent.transcript.turn_count
    print(f"{done.stop}: {done.answer!r} after {taken} turns", end="; ")
    print(f"{watch.failures} failures and {watch.compactions} compactions on the way")
    return watch


def broken(watch: Watch) -> list[str]:
    """The bounds that do not hold."""
    second, last = watch.tenths[1], watch.tenths[9]
    growth = 0.05 if watch.turns >= LONG else 0.15
    medians = [statistics.median(tenth.took) for tenth in (second, last)]
    checks = {
        f"memory grew by more than {growth:.0%}": last.memory > (1 + growth) * second.memory,
        "a turn takes more than half as long again": medians[1] > 1.5 * medians[0],
        "the context was above the threshold and a message": max(t.context for t in watch.tenths)
        > THRESHOLD + MESSAGE,
        "open files grew": last.files > second.files + HANDFUL,
        "threads grew": last.threads > second.threads + HANDFUL,
        "processes grew": last.processes > second.processes + HANDFUL,
    }
    wrong = [what for what, is_so in checks.items() if is_so]
    twice, never = (
        watch.steps - Counter(range(1, watch.turns + 1)),
        Counter(range(1, watch.turns + 1)) - watch.steps,
    )
    return [
        *wrong,
        *(
            f"steps {what}: {sorted(steps)}"
            for what, steps in {"twice": twice, "never": never}.items()
            if steps
        ),
    ]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--faults", type=float, default=0.05, help="the share of calls that fail")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        with Story(options.turns, options.faults).endpoint as endpoint:
            print(endpoint.base_url, flush=True)
            sys.stdin.read()
        return
    os.environ["LLM_API_KEY"] = "none"
    command = [sys.executable, *sys.argv, "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        watch = asyncio.run(run(options.turns, server.stdout.readline().strip()))
        server.communicate()
    print("tenth   memory   a turn   context  files  threads  processes")
    for number, tenth in enumerate(watch.tenths, 1):
        print(
            f"{number:5}  {tenth.memory / 1e6:5.1f} MB  {statistics.median(tenth.took) * 1e3:5.1f} ms  "
            f"{tenth.context:7,}  {tenth.files:5}  {tenth.threads:7}  {tenth.processes:9}"
        )
    problems = broken(watch)
    print("\n".join(problems) or "every bound holds")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

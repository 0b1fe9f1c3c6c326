"""What the record of a long run costs: each write, memory, and reading it back.

    python benchmarks/record.py --blocks 10000
    python benchmarks/record.py --live 10000

Turns of one block, a reply and an observation each, with a note and a compaction now and then, as events: no model and
no kernel. The notebook is written every 25 turns, more often than a recorder does it. It prints for each tenth what a
write takes, the size of the file, what the journal takes of the processor, and the memory; in the end what reading both
back and drawing the small page of a run take.

With --live an agent runs the blocks in a real kernel, one a turn, as fast as they go: a model that takes no time
answers. For each tenth it prints which part of the time the thread that writes the notebook was at work, and in the end
what the journal of that run takes when its events are written once more, beside the time that the run took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from codeact_kernel import Agent, Run
from codeact_kernel.blocks import BlockResult, CodeBlock, Outcome, Prose, StreamOutput
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Event,
    Knowledge,
    NoteReceived,
    Observation,
    Reply,
    Report,
    RunStarted,
    Task,
    TurnStarted,
)
from codeact_kernel.messages import EndPiece, ModelRequest, Piece, TextPiece, Usage
from codeact_kernel.record import Journal, NotebookFile, notebook_text, read_journal
from codeact_kernel.transcript import Transcript

TOGETHER = 25
"""Turns between two writes of the notebook."""


def turn(number: int) -> Iterator[Event]:
    block, at = CodeBlock(f"rows[{number}] = load({number})\nprint(len(rows))", f"b{number}"), float(number)
    yield TurnStarted(number, at)
    said = f"Now page {number}."
    text = f"{said}\n<run_code>\n{block.code}\n</run_code>"
    yield BlockQueued(number, block.id or "", block, at)
    yield BlockStarted(block.id or "", "main", at + 0.1)
    yield BlockOutput(block.id or "", StreamOutput("stdout", f"{number}\n" * 20))
    yield Appended(number, Reply(number, text, (Prose(said), block), started=at, ended=at + 0.1))
    outcome = Outcome(execution_count=number)
    yield BlockFinished(BlockResult(block.id or "", block, outcome, (), at, at + 0.1, at + 0.9))
    yield Appended(number, Observation((Report("run_code_result", f"{number}\n" * 20, block.id),)))
    if number % 50 == 0:
        yield NoteReceived("user", f"Skip page {number + 1}.")
    if number % 100 == 0:
        yield Appended(number, Knowledge(f"Pages 1 to {number} are loaded."))


def memory() -> float:
    """The most that was resident, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def written(folder: Path, blocks: int) -> None:
    transcript, file = Transcript(), NotebookFile(folder / "run.ipynb")
    writes: list[float] = []
    journal_took = 0.0
    with Journal(folder / "journal.jsonl", report=print) as journal:
        for event in (
            RunStarted("r", "Load all pages.", "m", "system", 0.0),
            Appended(0, Task("Load all pages.")),
        ):
            transcript.apply(event)
            journal(event)
        for number in range(1, blocks + 1):
            for event in turn(number):
                transcript.apply(event)
                began = time.thread_time()
                journal(event)
                journal_took += time.thread_time() - began
            if number % TOGETHER == 0:
                began = time.perf_counter()
                file.write(transcript, transcript.take_settled())
                writes.append(time.perf_counter() - began)
            if number % (blocks // 10) == 0:
                size = (folder / "run.ipynb").stat().st_size / 1e6
                print(
                    f"{number:>7,} blocks  a write {statistics.median(writes) * 1e3:6.1f} ms  {size:6.1f} MB  "
                    f"the journal {journal_took / (blocks // 10) * 1e3:5.2f} ms a turn  {memory():5.0f} MB"
                )
                writes, journal_took = [], 0.0
    file.close()


class Clerk:
    """A model that needs no time: a block a turn, and now and then it writes down what it knows."""

    name, window = "clerk", None

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._said = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        self._said += 1
        n = self._said
        note = f"self.compact_knowledge('{n} are loaded.')\n" if n % 40 == 0 else ""
        code = f"{note}page = [{n}] * 20\nprint(*page, sep='\\n')"
        yield TextPiece(
            "All are loaded." if n > self._blocks else f"Now page {n}.\n<run_code>\n{code}\n</run_code>"
        )
        yield EndPiece("stop", Usage(calls=1))

    async def aclose(self) -> None:
        pass


def of_the_writer() -> float:
    """What the thread that writes the notebook has taken of the processor, in seconds."""
    idents = [t.ident for t in threading.enumerate() if t.name.startswith("recorder") and t.ident]
    return sum(time.clock_gettime(time.pthread_getcpuclockid(ident)) for ident in idents)


async def live(folder: Path, blocks: int) -> None:
    tenth, marks = blocks // 10, list[tuple[float, float, float]]()

    def mark(event: Event) -> None:
        if isinstance(event, TurnStarted) and (event.turn - 1) % tenth == 0:
            marks.append((time.perf_counter(), of_the_writer(), time.process_time()))
            if len(marks) > 1:
                took, wrote, worked = (now - before for now, before in zip(*marks[:-3:-1], strict=True))
                size = (folder / "run.ipynb").stat().st_size / 1e6
                print(
                    f"{event.turn - 1:>7,} blocks  {took / tenth * 1e3:5.1f} ms a turn  {size:6.1f} MB  the notebook's "
                    f"writer {wrote / took:6.2%} of the time, {wrote / worked:6.2%} of the host's processor  "
                    f"{memory():5.0f} MB"
                )

    async with Agent(
        Clerk(blocks), workspace=folder.parent, run_dir=folder, observers=[mark], approve="auto"
    ) as agent:
        await agent.run("Load all pages.")
    took = marks[-1][0] - marks[0][0]
    print(f"the notebook's writer in all: {(marks[-1][1] - marks[0][1]) / took:.2%} of {took:.0f} s")
    events = list[Event]()
    read_journal(folder / "journal.jsonl", events.append, None)
    with Journal(folder / "again.jsonl", report=print) as journal:
        began, worked = time.perf_counter(), time.thread_time()
        for event in events:
            journal(event)
        wrote, worked = time.perf_counter() - began, time.thread_time() - worked
    print(
        f"the journal: {len(events):,} lines, {worked / took:.2%} of that time at work, {wrote / took:.2%} with its "
        "waits for the disk"
    )


def _unsigned(text: str) -> object:
    notebook = json.loads(text)
    notebook["metadata"]["codeact"].pop("signature", None)
    return notebook


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--live", type=int, metavar="N", help="run N blocks in a real kernel")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if wanted.live:
            asyncio.run(live(folder / "run", wanted.live))
            return
        written(folder, wanted.blocks)
        texts = [(folder / "run.ipynb").read_text("utf-8")]
        for path in (folder / "journal.jsonl", folder / "run.ipynb"):
            began = time.perf_counter()
            run = Run.load(path)
            took = time.perf_counter() - began
            print(f"{path.name} is read in {took:.1f} s: {len(run.blocks):,} blocks, {memory():.0f} MB")
            texts.append(notebook_text(run.to_notebook()))
        same = [_unsigned(text) for text in texts]
        print(
            f"the notebook of what was read is {'the same' if same[0] == same[1] == same[2] else 'ANOTHER ONE'}"
        )
        began = time.perf_counter()
        run._repr_html_()
        print(f"its page takes {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()

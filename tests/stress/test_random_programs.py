"""Random programs of blocks, against a simple model of what must come out of each.

A program is a handful of blocks that live at the same time in one kernel. Each block is a list of steps; the
model of a block is the text that its steps print, in order, and how it ends. A block that is cancelled on the
way must have printed a beginning of its text, and nothing else.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from codeact_kernel.blocks import DisplayOutput, ResultOutput

pytestmark = pytest.mark.stress


@dataclass
class Program:
    """A block, and the model of it."""

    name: str
    lines: list[str] = field(default_factory=list)
    text: str = ""
    awaits: bool = False
    pictures: int = 0
    value: str | None = None
    fails: bool = False
    cancelled: bool = False

    @property
    def code(self) -> str:
        return "\n".join(self.lines)


def write_block(chance: random.Random, name: str) -> Program:
    """Make a block of a few random steps."""
    block = Program(name, awaits=chance.random() < 0.5)
    if block.awaits:
        block.lines.append("await asyncio.sleep(0)")
    for number in range(chance.randint(1, 6)):
        word = f"{name}-{number}"
        step = chance.choice(STEPS)
        if step is not fail or number > 2:
            step(chance, block, word)
        if block.fails:
            return block
    if chance.random() < 0.3:
        block.lines.append(f"'{name}'")
        block.value = f"'{name}'"
    return block


def say(chance, block, word):
    block.lines.append(f"print('{word}'{', flush=True' if chance.random() < 0.3 else ''})")
    block.text += f"{word}\n"


def say_much(chance, block, word):
    count = chance.randint(10, 400)
    block.lines.append(f"for i_{block.name} in range({count}): print('{word}', i_{block.name})")
    block.text += "".join(f"{word} {i}\n" for i in range(count))


def pause(chance, block, word):
    seconds = chance.random() * 0.05
    block.lines.append(f"await asyncio.sleep({seconds})" if block.awaits else f"time.sleep({seconds})")


def work(chance, block, word):
    block.lines.append(f"sum(range({chance.randint(1000, 200_000)}))" + ";")
    block.lines.append("pass")


def in_thread(chance, block, word):
    # Names of its own: blocks that live at once share one namespace.
    block.lines.append(f"t_{block.name} = threading.Thread(target=print, args=('{word}',))")
    block.lines.append(f"t_{block.name}.start(); t_{block.name}.join()")
    block.text += f"{word}\n"


def in_pool(chance, block, word):
    block.lines.append(f"pool.submit(print, '{word}').result();")
    block.lines.append("pass")
    block.text += f"{word}\n"


def in_task(chance, block, word):
    if block.awaits:
        block.lines.append(f"await asyncio.gather(say('{word}'), asyncio.create_task(say('{word}')));")
        block.lines.append("pass")
        block.text += f"{word}\n{word}\n"


def captured(chance, block, word):
    block.lines.append("with contextlib.redirect_stdout(io.StringIO()): print('hidden')")


def plot(chance, block, word):
    if not block.pictures:
        block.lines.append("plt.plot([1, 2]);")
        block.lines.append("pass")
        block.pictures = 1


def fail(chance, block, word):
    block.lines.append(f"raise ValueError('{word}')")
    block.fails = True


STEPS = [say, say, say_much, pause, pause, work, in_thread, in_pool, in_task, captured, plot, fail]
SETUP = (
    "import asyncio, contextlib, io, threading, time\nimport matplotlib.pyplot as plt\n"
    "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(4)\n"
    "async def say(word):\n    await asyncio.sleep(0.001)\n    print(word)"
)


def check(block: Program, watched) -> None:
    """Hold what came out against the model."""
    where = f"{block.name}, {watched.lane}:\n{block.code}\n{watched.error}"
    assert watched.outcome.missing == 0, where
    pictures = [o for o in watched.outputs if isinstance(o, DisplayOutput)]
    values = [o.data["text/plain"] for o in watched.outputs if isinstance(o, ResultOutput)]
    if block.cancelled and watched.status != "ok":
        assert watched.status in ("error", "cancelled"), where
        assert block.text.startswith(watched.text), where
        return
    assert watched.status == ("error" if block.fails else "ok"), where
    assert watched.text == block.text, where
    assert len(pictures) == block.pictures, where
    assert values == ([block.value] if block.value else []), where
    if block.fails:
        assert "ValueError" in watched.error, where


async def test_random_programs_print_what_their_model_says(bench, times):
    chance = random.Random(20261130)
    await bench.run(SETUP)
    for round_number in range(times(25, 250)):
        blocks = [write_block(chance, f"r{round_number}b{n}") for n in range(chance.randint(2, 10))]
        running = [bench.start(b.code, id=b.name, after=()) for b in blocks]
        for block in blocks:
            if chance.random() < 0.2:
                block.cancelled = True
                await asyncio.sleep(chance.random() * 0.03)
                await bench.runner.interrupt(block.name)
        async with asyncio.timeout(60):
            for block, (watched, task) in zip(blocks, running, strict=True):
                await task
                check(block, watched)
    assert (await bench.run("print(threading.active_count() < 60)")).text == "True\n"

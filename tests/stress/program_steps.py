"""What the blocks of a random program are made of: steps, each with its code and with the model of it.

The model of a block is its text by stream, its displays and pictures, its value, how it ends, and what it says late.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SETUP = """
import asyncio, contextlib, io, os, subprocess, sys, threading, time
import multiprocessing as mp
import matplotlib.pyplot as plt
from concurrent.futures import ThreadPoolExecutor
pool, kept, gates = ThreadPoolExecutor(4), [], set()

def pass_gate(gate):
    while gate not in gates: time.sleep(0.002)

def say_late(gate, word):
    with contextlib.suppress(KeyboardInterrupt):
        pass_gate(gate)
        sys.stdout.write(f'late {word}\\n')

def start_late(gate, word):
    kept.append(thread := threading.Thread(target=say_late, args=(gate, word)))
    thread.start()

async def tell_late(gate, word):
    while gate not in gates: await asyncio.sleep(0.002)
    sys.stdout.write(f'late {word}\\n')

async def all_said():
    for job in kept:
        await (asyncio.to_thread(job.join) if isinstance(job, threading.Thread) else asyncio.wait([job]))
    kept.clear()

async def tell(word):
    await asyncio.sleep(0.001)
    print(word)
"""


@dataclass(frozen=True)
class Step:
    """One thing that a block does; what the number means is the kind's own."""

    kind: str
    number: int = 0


@dataclass(frozen=True)
class Block:
    """A block as it is drawn."""

    steps: tuple[Step, ...] = ()
    awaits: bool = False
    end: str = "ends"
    lane: str | None = None
    needs: int = 0
    """How many blocks before it stands the one whose name it needs; 0 for none."""
    captured: bool = False
    cancelled: int | None = None
    """Milliseconds after which it is cancelled."""


@dataclass
class Written:
    """A block's code, and the model of it."""

    block: Block
    name: str
    maker: Written | None = None
    lines: list[str] = field(default_factory=list)
    shown: list[tuple[str, str]] = field(default_factory=list)
    """Its text on stdout and its displays, in order: ("text" or "display", what)."""
    errors: str = ""
    """Its text on stderr."""
    late: list[str] = field(default_factory=list)
    pictures: int = 0
    value: str | None = None
    status: str = "ok"
    sign: str = ""
    """What its error says."""

    @property
    def code(self) -> str:
        magic = [f"%%capture taken_{self.name}"] if self.block.captured else []
        return "\n".join([*magic, *self.lines])

    @property
    def gate(self) -> str:
        return self.name.partition("b")[0]

    @property
    def may_end_early(self) -> bool:
        """Whether it, or one that it waits for, is cancelled."""
        return self.block.cancelled is not None or (self.maker is not None and self.maker.may_end_early)

    def add(self, *lines: str) -> None:
        self.lines += lines

    def prints(self, text: str) -> None:
        self.shown.append(("text", text))

    def pause(self, seconds: float) -> None:
        self.add(f"await asyncio.sleep({seconds})" if self.block.awaits else f"time.sleep({seconds})")


# -- steps: each adds its code, and to the model what that code does --------------------------------------------


def say(written, word, number):
    written.add(f"print('{word}'{', flush=True' if number % 2 else ''})")
    written.prints(f"{word}\n")


def complain(written, word, number):
    written.add(f"print('{word}', file=sys.stderr{', flush=True' if number % 2 else ''})")
    written.errors += f"{word}\n"


def say_much(written, word, number):
    count = number * 4 + 1
    written.add(f"for i_{written.name} in range({count}): print('{word}', i_{written.name})")
    written.prints("".join(f"{word} {i}\n" for i in range(count)))


def pause(written, word, number):
    written.pause(number / 2000)


def work(written, word, number):
    written.add(f"sum(range({number * 2000}))")


def display(written, word, number):
    written.add(f"display('{word}')")
    written.shown.append(("display", f"'{word}'"))


def plot(written, word, number):
    written.add("plt.figure()", f"plt.plot([1, {number}])")
    written.pictures += 1


def redirected(written, word, number):
    target = ("redirect_stdout", "redirect_stderr")[number % 2]
    file = ("stdout", "stderr")[number % 2]
    written.add(
        f"with contextlib.{target}(io.StringIO()) as taken_{written.name}: print('{word}', file=sys.{file})",
        f"assert taken_{written.name}.getvalue() == '{word}\\n'",
    )


def in_thread(written, word, number):
    written.add(
        f"t_{written.name} = threading.Thread(target=print, args=('{word}',))",
        f"t_{written.name}.start(); t_{written.name}.join()",
    )
    written.prints(f"{word}\n")


def in_pool(written, word, number):
    written.add(f"pool.submit(print, '{word}').result()")
    written.prints(f"{word}\n")


def in_tasks(written, word, number):
    if written.block.awaits:
        written.add(f"await asyncio.gather(tell('{word}'), asyncio.create_task(tell('{word}')))")
        written.prints(f"{word}\n{word}\n")
    else:
        written.add(f"asyncio.run(tell('{word}'))")
        written.prints(f"{word}\n")


def left_running(written, word, number):
    if written.block.awaits and number % 2:
        written.add(f"kept.append(asyncio.create_task(tell_late('{written.gate}', '{word}')))")
    else:
        written.add(f"start_late('{written.gate}', '{word}')")
    written.late.append(f"late {word}\n")


def child(written, word, number):
    start = (
        f"subprocess.run(['echo', '{word}'])",
        f"os.system('echo {word}')",
        f"!echo {word}",
        f"subprocess.run('echo {word} >&2', shell=True)",
    )[number % 4]
    if written.block.awaits and number % 8 > 3:
        start = f"await (await asyncio.create_subprocess_exec('echo', '{word}')).wait()"
    written.add(start)
    if ">&2" in start:
        written.errors += f"{word}\n"
    else:
        written.prints(f"{word}\r\n" if start[0] == "!" else f"{word}\n")


def process(written, word, number):
    start = "spawn" if number % 8 == 0 else "fork"
    if number % 4 == 3 and written.block.cancelled is None:
        # multiprocessing's own pool can be left hanging by an interrupt that hits it at its end.
        written.add(f"with mp.get_context('{start}').Pool(1) as p_{written.name}:")
        written.add(f"    p_{written.name}.apply(print, ('{word}',))")
    else:
        written.add(
            f"p_{written.name} = mp.get_context('{start}').Process(target=print, args=('{word}',))",
            f"p_{written.name}.start(); p_{written.name}.join()",
        )
    written.prints(f"{word}\n")

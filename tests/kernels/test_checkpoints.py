"""Checkpoints of real kernels: what is back after a death, and what hostile values do to the kernel (nothing)."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest

from codeact_kernel.allowance import Allowance
from codeact_kernel.kernels import Checkpoints, Kernel, KernelSettings
from codeact_kernel.runfiles import Folder

pytestmark = pytest.mark.kernel
MOST = 10**9


@pytest.fixture
def run(tmp_path):
    """The folder of a run."""
    folder = Folder.make(tmp_path / "run")
    yield folder
    folder.close()


@pytest.fixture
async def kept(bench, run):
    """A bench whose checkpoints are taken when a test wants one."""
    bench.kernel.checkpoints = Checkpoints(lambda: run, MOST)
    return bench


async def save(bench):
    """Take a checkpoint now; returns its manifest."""
    await bench.kernel.checkpoints.take(bench.kernel.process)
    assert not bench.kernel.checkpoints.fault
    return manifest_of(bench)


def manifest_of(bench):
    return json.loads((bench.kernel.checkpoints._folder().path / "checkpoint" / "manifest.json").read_text())


async def die(bench):
    await bench.kernel.kill("was killed by the test")
    await bench.kernel.process.ended()


def note_of(block):
    (note,) = block.outcome.notes
    return note


async def test_after_a_death_names_are_back_and_the_block_says_which(kept):
    await kept.run("rows = [1, 2]\ndef total(): return sum(rows)\nf = open('/dev/null')")
    await save(kept)
    await kept.run("late = 1")
    await die(kept)
    block = await kept.run("rows.append(3)\nprint(total())")
    assert block.text == "6\n"
    at = kept.kernel.checkpoints.at
    assert note_of(block) == (
        "it ran in a fresh kernel, because the kernel was killed by the test. "
        f"These names are back, as they were at {at}: rows, total. "
        "These names are gone: f (it is an open file, or a connection (TextIOWrapper)), "
        "late (it is newer than the checkpoint)."
    )


async def test_checkpoints_are_taken_by_themselves_and_when_a_kernel_is_left(tmp_path, run, bench_of):
    async with Kernel(KernelSettings(cwd=tmp_path)) as kernel:
        checkpoints = Checkpoints(lambda: run, MOST)
        kernel.keep_checkpoints(checkpoints)
        bench = bench_of(kernel)
        await bench.run("first = 1")
        async with asyncio.timeout(20):
            while checkpoints.taken is None:
                await asyncio.sleep(0.05)
        await bench.run("last = 2")
    async with Kernel(KernelSettings(cwd=tmp_path)) as kernel:
        kernel.keep_checkpoints(Checkpoints(lambda: None, MOST))
        restored = await kernel.restore(run)
        assert set(restored.back) == {"first", "last"}
        assert (await bench_of(kernel).run("first + last")).value == "3"


async def test_off_means_off(tmp_path, run, bench_of):
    async with Kernel(KernelSettings(cwd=tmp_path)) as kernel:
        kernel.keep_checkpoints(Checkpoints(lambda: run, 0))
        await bench_of(kernel).run("x = 1")
        assert await kernel.restore() == await kernel.restore(run)
    assert run.names() == []


async def test_a_name_that_is_deleted_is_no_longer_in_it_and_its_file_is_swept(kept, run):
    await kept.run("import numpy as np\nbig = np.arange(100_000)\nsmall = 1")
    before = await save(kept)
    await kept.run("del big")
    after = await save(kept)
    assert {name for group in after["groups"] for name in group["names"]} == {"np", "small"}
    objects = {file.name for file in (run.path / "checkpoint" / "objects").iterdir()}
    assert len(objects) == 1
    assert len(before["groups"]) == 3


async def test_a_big_array_is_written_once_and_costs_no_copy_to_read(kept, run):
    await kept.run("import numpy as np\nbig = np.arange(2_000_000)\nn = 0")
    await save(kept)
    (file,) = (f for f in (run.path / "checkpoint" / "objects").iterdir() if f.stat().st_size > 10**6)
    written = file.stat().st_mtime_ns
    await kept.run("n = 1")
    await save(kept)
    assert file.stat().st_mtime_ns == written
    await die(kept)
    block = await kept.run("before = int(big.sum()); big[0] = 7\nprint(before, big[0])")
    assert block.text.startswith("1999999000000 7")
    await die(kept)
    assert (await kept.run("big[0]")).value == "np.int64(0)"


HOSTILE = """
import os, sys, threading, time
class Hostile:
    def __init__(self, act): self.act = act
    def __reduce__(self):
        globals()[self.act]()
        return str, (self.act,)
def hangs_up():
    os._exit(0)
def kills():
    os.kill(os.getpid(), 9)
def crashes():
    import ctypes; ctypes.string_at(0)
def exits():
    sys.exit(3)
def prints():
    print("seen"); os.write(1, b"seen"); os.system("echo seen")
def changes():
    good.append("changed"); globals()["new"] = 1
def forks():
    if os.fork() == 0: time.sleep(60)
def writes():
    log.write("from the copy"); log.flush()
def signals():
    os.kill(os.getppid(), 0)
good = [1]
log = open("log.txt", "w")
"""


@pytest.mark.parametrize("act", ["hangs_up", "kills", "crashes", "exits"])
async def test_a_value_that_ends_the_process_is_left_out_and_nothing_else(kept, act):
    await kept.run(HOSTILE + f"bad = Hostile({act!r})")
    manifest = await save(kept)
    saved = {name for group in manifest["groups"] for name in group["names"]}
    assert "good" in saved
    assert "bad" not in saved
    assert "ended the process" in manifest["missing"]["bad"] or "SystemExit" in manifest["missing"]["bad"]
    assert (await kept.run("good")).value == "[1]"


@pytest.mark.parametrize("act", ["prints", "changes", "forks", "writes"])
async def test_what_pickling_does_reaches_nobody(kept, act, tmp_path):
    await kept.run(HOSTILE + f"bad = Hostile({act!r})")
    manifest = await save(kept)
    assert any("good" in group["names"] for group in manifest["groups"])
    block = await kept.run("print(good, 'new' in globals(), self.processes if 'self' in globals() else 0)")
    assert block.text == "[1] False 0\n"
    log = kept.kernel.process.folder / "log"
    assert b"seen" not in log.read_bytes()
    assert (tmp_path / "log.txt").read_text() == ""
    below = await kept.run(
        "import os\nprint(open(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read())"
    )
    assert below.text.strip() == ""


async def test_a_list_that_a_block_changes_meanwhile_is_whole_or_left_as_it_was(kept):
    await kept.run("rows = []\nother = list(range(100))\nclass Row: pass")
    await save(kept)
    code = """
    import asyncio
    def add(n):
        for i in range(n): rows.append(Row())
        if len(rows) > 50_000: rows.clear()
    while True:
        add(1000)
        await asyncio.sleep(0)
    """
    running, task = kept.start(code, id="adder")
    await running.running.wait()
    await kept.run("other.append(1)")
    manifest = await save(kept)
    assert manifest["busy"] == {"rows": "block adder"}
    names = [name for group in manifest["groups"] for name in group["names"]]
    assert {"rows", "other", "Row"} <= set(names)
    assert len(names) == len(set(names))
    await die(kept)
    await asyncio.gather(task, return_exceptions=True)
    assert (await kept.run("len(rows), len(other)")).value == "(0, 101)"


async def test_kill_9_in_the_middle_of_a_checkpoint_leaves_the_one_before(kept):
    slow = "import time\nclass Slow:\n    def __reduce__(self): time.sleep(20); return int, ()\n"
    await kept.run("a = 1")
    await save(kept)
    await kept.run(slow + "b = Slow()\na = 2")
    taking = asyncio.create_task(kept.kernel.checkpoints.take(kept.kernel.process))
    own = kept.kernel.process.own
    async with asyncio.timeout(20):
        while not any(own.glob("checkpoint-*")):
            await asyncio.sleep(0.01)
    os.kill(kept.kernel.pid, signal.SIGKILL)
    await taking
    await kept.kernel.process.ended()
    assert (await kept.run("a")).value == "1"


async def test_a_manifest_that_is_torn_is_said_and_the_next_checkpoint_puts_that_right(kept, run):
    await kept.run("a = 1")
    await save(kept)
    file = run.path / "checkpoint" / "manifest.json"
    file.write_bytes(file.read_bytes()[:40])
    await die(kept)
    block = await kept.run("b = 2")
    assert "a (the checkpoint cannot be read: " in note_of(block)
    await save(kept)
    await die(kept)
    assert (await kept.run("b")).value == "2"


async def test_a_full_disk_costs_the_checkpoint_and_not_the_one_before(kept):
    await kept.run("import numpy as np, resource\na = 1")
    await save(kept)
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, -1))\n"
    await kept.run(limit + "a = 2\nbig = np.arange(100_000)")
    await kept.kernel.checkpoints.take(kept.kernel.process)
    assert "File too large" in kept.kernel.checkpoints.fault
    await die(kept)
    assert (await kept.run("a")).value == "1"


async def test_what_takes_more_memory_than_there_is_room_for_is_left_out(kept):
    await kept.run("rows = [{'n': str(n)} for n in range(400_000)]\nsmall = 1")
    kept.kernel.process.room = lambda: 20_000_000
    manifest = await save(kept)
    assert manifest["missing"] == {"rows": "there was not enough memory to pickle it"}
    assert [group["names"] for group in manifest["groups"]] == [["small"]]


async def test_who_might_do_less_brings_back_nothing_here(kept, run, tmp_path):
    await kept.run("a = 1")
    await save(kept)
    more = Allowance(tools=frozenset({"deploy"}))
    async with Kernel(KernelSettings(cwd=tmp_path)) as kernel:
        kernel.keep_checkpoints(Checkpoints(lambda: None, MOST, more))
        restored = await kernel.restore(run)
    assert restored.back == ()
    assert "it lacks the tool deploy" in restored.missing["a"]


async def test_what_ends_the_kernel_when_it_is_back_is_not_brought_back_for_ever(kept):
    await kept.run(
        "import os\nclass Bad:\n    def __reduce__(self): return os._exit, (3,)\nbad, good = Bad(), 1"
    )
    await save(kept)
    await die(kept)
    block = await kept.run("print('good' in globals())")
    assert block.text == "False\n"
    assert (
        "bringing the checkpoint back failed: the kernel's process ended by itself with exit code 3"
        in note_of(block)
    )


async def test_a_kernel_that_dies_as_soon_as_it_is_back_is_fresh_the_next_time(kept):
    await kept.run("a = 1")
    await save(kept)
    await die(kept)
    assert "a" in (await kept.kernel.revive()).back
    await die(kept)
    block = await kept.run("'a' in globals()")
    assert block.value == "False"
    assert "when the checkpoint had just been brought back" in note_of(block)

"""What outlives a compaction is told as it is, and in bounded time."""

from __future__ import annotations

import asyncio
import os
import time
from types import SimpleNamespace

import pytest
from talk import block, delegate, play

from codeact_kernel.agent import survey
from codeact_kernel.agent.survey import Survey, written
from codeact_kernel.context import AliveFile, AliveVariable
from codeact_kernel.errors import KernelError
from codeact_kernel.testing import jumping

NOTHING = SimpleNamespace(live=[], results={})


def test_files_written_since_a_moment_are_found_latest_first(tmp_path):
    old = tmp_path / "old.csv"
    old.write_text("before")
    since = time.time() + 0.05
    while time.time() < since:
        os.stat(old)  # noqa: PTH116
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "deep" / "new.csv").write_text("after")
    copy = tmp_path / "copy.csv"
    copy.write_text("as old")
    os.utime(copy, (1, 1))
    for hidden in (".git", "node_modules", "record"):
        (tmp_path / hidden).mkdir()
        (tmp_path / hidden / "x").write_text("x")
    (tmp_path / "link").symlink_to(old)
    found, complete = written(tmp_path, since, tmp_path / "record")
    assert complete
    assert set(found) == {AliveFile("out/deep/new.csv", 5), AliveFile("copy.csv", 6)}


def test_a_look_through_a_large_workspace_ends_and_says_so(tmp_path):
    for n in range(50):
        (tmp_path / str(n)).write_text("x")
    found, complete = written(tmp_path, 0.0, seconds=0.0)
    assert not complete
    assert len(found) <= 1


class Kernel:
    ours = True
    names = ("df", "rows")

    def __init__(self, survey):
        self.survey = survey


@jumping
async def test_a_kernel_that_does_not_answer_makes_it_poorer_and_not_late(tmp_path):
    kernel = Kernel(lambda: asyncio.sleep(3600))
    before = asyncio.get_running_loop().time()
    alive = await Survey(NOTHING, kernel, tmp_path)()
    assert asyncio.get_running_loop().time() - before <= survey.PATIENCE
    assert alive.variables == (AliveVariable("df"), AliveVariable("rows"))


@jumping
async def test_a_kernel_that_is_gone_is_no_error(tmp_path):
    async def survey():
        raise KernelError("it is gone")

    alive = await Survey(NOTHING, Kernel(survey), tmp_path)()
    assert alive.variables == (AliveVariable("df"), AliveVariable("rows"))


@pytest.mark.kernel
async def test_the_inventory_after_a_compaction_names_all_that_is_alive(tmp_path):
    making = (
        "import subprocess, sys, time\n"
        "big = bytes(5_000_000)\n"
        "rows = [{'n': n} for n in range(1000)]\n"
        "n = 7\n"
        "class Slow:\n"
        "    def __len__(self): time.sleep(3600)\n"
        "    nbytes = shape = property(__len__)\n"
        "slow = Slow()\n"
        "open('report.csv', 'w').write('a,b')\n"
        "server = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    )
    script = [
        block(making, id="make") + "\n" + delegate("HELPER", name="scout"),
        "I wait.",
        block("time.sleep(30)", id="long", after="make", lane="main")
        + "\n"
        + block("self.compact_knowledge('I know.')", id="c"),
        '<cancel id="long"/>',
        "done",
        "done",
    ]

    def say(request):
        """The next reply; it does not wait for what has ended already."""
        return script.pop(0)

    model, run, _ = await play(tmp_path, {"ROOT": say, "HELPER": ["I found 3."], "I know.": say})
    assert run.answer == "done"
    (told,) = {m.content for r in model.requests for m in r.messages if "<alive" in m.content}
    lines = told.split("\n")
    assert any(line.startswith("- long (running for ") for line in lines)
    assert any("time.sleep(60)" in line and "(of block make)" in line for line in lines)
    order = [line.partition(":")[0] for line in lines if line.startswith("- ")]
    assert order.index("- big") < order.index("- rows")
    assert "- big: bytes 5000000 (about 5 MB)" in lines
    assert "- n: int 7 (about 28 B)" in lines
    assert "- slow: Slow" in lines
    assert "- report.csv (3 B)" in lines
    assert any(
        line.startswith("Outputs that self.output(id) still gives, latest first: c, make") for line in lines
    )
    assert "Results that self.result(name) still gives, latest first: scout" in lines
    assert any("self.history.search(" in line for line in lines)

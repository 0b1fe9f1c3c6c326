"""A run as a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from records import told

from codeact_kernel.agent import RecordedRun, script
from codeact_kernel.blocks import BlockResult, CodeBlock, Outcome
from codeact_kernel.events import BlockFinished, BlockQueued, BlockStarted, RunStarted, TurnStarted
from codeact_kernel.record import write_journal
from codeact_kernel.runfiles import Folder


def program(tmp_path, *codes):
    """The program of a run of these blocks; those that begin with "!" have failed."""
    events = [RunStarted("r", "Do it.\nAll.", "m", "s", 1.0), TurnStarted(1, 1.0)]
    for at, code in enumerate(codes):
        block, status = CodeBlock(code.removeprefix("!!")), "error" if code.startswith("!!") else "ok"
        events += [BlockQueued(1, f"b{at}", block, 1.0), BlockStarted(f"b{at}", "main", 2.0 + at)]
        events.append(BlockFinished(BlockResult(f"b{at}", block, Outcome(status), (), 1.0, 2.0 + at, 9.0)))
    folder = Folder.make(tmp_path / "run")
    write_journal(folder, "journal.jsonl", events, None)
    folder.close()
    return script(RecordedRun(Path(tmp_path / "run" / "journal.jsonl"), told(events)))


def ran(text):
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


AWAITS = """import asyncio as aio
total: int = 0
left: list[int]
for n in [1, 2]:
    await aio.sleep(0)
    total += x + n
async def later():
    inner = 1
    return inner
found = [(await later()) for unseen in range(2)]
match found:
    case [one, *rest]: pass
try:
    1 / 0
except ZeroDivisionError as gone:
    pass
text = '''a
b'''"""


def test_it_runs_alone_and_has_the_blocks_that_ended_well(tmp_path):
    text = program(
        tmp_path,
        "x = 40",
        "!!raise SystemExit(3)",
        AWAITS,
        "print(total, found, one, rest, await later(), repr(text))",
    )
    assert text.startswith("# Do it.\n# All.\n")
    assert "SystemExit" not in text
    assert ran(text) == "83 [1, 1] 1 [1] 1 'a\\nb'\n"


def test_what_only_ipython_takes_is_written_as_calls_of_it(tmp_path):
    text = program(tmp_path, "%precision 2\nfiles = !echo hello\nprint(files[0])")
    assert "get_ipython().run_line_magic('precision', '2')" in text
    assert "hello" in ran(text)


def test_blocks_that_do_not_await_stand_as_they_were_written(tmp_path):
    code = "# a remark\ndef f(x: int = 1):\n    return x  # kept"
    assert f"# turn 1, b0\n{code}\n" in program(tmp_path, code)

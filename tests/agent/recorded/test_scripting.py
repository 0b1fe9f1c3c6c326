"""A run as a program."""

from __future__ import annotations

import subprocess
import sys

from records import told

from codeact_kernel.agent import RecordedRun, script
from codeact_kernel.blocks import BlockResult, CodeBlock, Outcome, Prose, ResultOutput, StreamOutput
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Reply,
    RunEnded,
    RunStarted,
    Task,
    TurnStarted,
)
from codeact_kernel.messages import Usage
from codeact_kernel.record import write_journal
from codeact_kernel.runfiles import Folder


def recorded(folder, *blocks, answer=None):
    """A run of these blocks: a code, or a code and what it has put out; those that begin with "!!" have failed."""
    task = "Do it.\nAll of it."
    events = [RunStarted("r", task, "m", "s", 1.0), Appended(0, Task(task)), TurnStarted(1, 1.0)]
    for at, each in enumerate(blocks):
        code, *outputs = (each,) if isinstance(each, str) else each
        block, status = CodeBlock(code.removeprefix("!!")), "error" if code.startswith("!!") else "ok"
        events += [BlockQueued(1, f"b{at}", block, 1.0), BlockStarted(f"b{at}", "main", 2.0 + at)]
        events += [
            BlockOutput(f"b{at}", StreamOutput("stdout", o) if isinstance(o, str) else o) for o in outputs
        ]
        events.append(BlockFinished(BlockResult(f"b{at}", block, Outcome(status), (), 1.0, 2.0 + at, 9.0)))
    if answer is not None:
        events += [TurnStarted(2, 20.0), Appended(2, Reply(2, answer, (Prose(answer),)))]
        events.append(RunEnded("answered", answer, Usage(), 2, 21.0))
    place = Folder.make(folder)
    write_journal(place, "journal.jsonl", events, None)
    place.close()
    return RecordedRun(folder / "journal.jsonl", told(events))


def program(tmp_path, *blocks, answer=None):
    return script(recorded(tmp_path / "run", *blocks, answer=answer))


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
    assert text.startswith("# Do it.\n# All of it.\n")
    assert "SystemExit" not in text
    assert ran(text) == "83 [1, 1] 1 [1] 1 'a\\nb'\n"


def test_what_only_ipython_takes_is_written_as_calls_of_it(tmp_path):
    text = program(tmp_path, "%precision 2\nfiles = !echo hello\nprint(files[0])")
    assert "get_ipython().run_line_magic('precision', '2')" in text
    assert "hello" in ran(text)


def test_blocks_that_do_not_await_stand_as_they_were_written(tmp_path):
    code = "# a remark\ndef f(x: int = 1):\n    return x  # kept"
    assert f"# turn 1, b0\n{code}\n" in program(tmp_path, code)


ROWS = "rows = [3, 1, 2]"
VALUE = ResultOutput({"text/plain": "6"}, {}, 1)


def test_what_was_only_looked_at_and_what_was_done_anew_is_left_out(tmp_path):
    text = program(
        tmp_path,
        "import json\nrows = json.loads('[3, 1]')\nprint(rows)",
        ("print(len(rows))\nfor row in sorted(rows):\n    print(row)", "2\n1\n3\n"),
        "!!rows.sum()",
        "import json\nrows = json.loads('[3, 1, 20]')",
        "spare = max(rows)",
        ("sum(rows)", ResultOutput({"text/plain": "24"}, {}, 1)),
        answer="The sum is 24.",
    )
    assert [line for line in text.splitlines() if line.startswith("# turn")] == [
        "# turn 1, b3",
        "# turn 1, b5",
    ]
    assert ran(text) == "24\n"


def test_files_that_are_written_are_written_again_and_what_calls_the_unknown_is_kept(tmp_path):
    text = program(
        tmp_path,
        "from pathlib import Path\nPath('n.txt').write_text('5')",
        "with open('m.txt', 'w') as file:\n    file.write('6')",
        ("with open('n.txt') as file:\n    print('look', file.read())", "look 5\n"),
        ("print(Path('n.txt').read_text())", "5\n"),
        answer="It is 5.",
    )
    assert "look" in text  # it shows the answer's figure, too
    assert ran(f"import os\nos.chdir({str(tmp_path)!r})\n{text}") == "look 5\n5\n"
    assert (tmp_path / "m.txt").read_text() == "6"


def test_names_that_functions_texts_and_the_answer_use_are_there(tmp_path):
    text = program(
        tmp_path,
        "rate = 2",
        "def priced(n):\n    return n * rate",
        "rate = 3",
        "scale = 10",
        "total = 1",
        ("print(priced(2) * eval('scale'))", "60\n"),
        answer="It is 60; see total.",
    )
    assert text.count("# turn") == 6
    assert ran(text) == "60\n"


def test_what_a_failed_block_had_made_is_made_again_where_it_is_used(tmp_path):
    text = program(
        tmp_path,
        "!!rows = [1, 2]\ntext = '''a\nb'''\nrows.total()",
        "!!unused = 1\n1/0",
        ("print(sum(rows), repr(text))", "3\n"),
        answer="3",
    )
    assert "unused" not in text
    assert ran(text).endswith("3 'a\\nb'\n")


def test_without_figures_to_go_by_all_that_was_shown_is_kept(tmp_path):
    text = program(tmp_path, ("print(1 < 2)", "True\n"), "x = 1", answer="Yes.")
    assert "print(1 < 2)" in text
    assert "x = 1" not in text
    assert program(tmp_path / "b", ("print(1)", "1\n"), "x = 1").count("# turn") == 2


def test_what_it_shows_is_printed_and_what_only_the_agent_understands_is_left_out(tmp_path):
    text = program(
        tmp_path,
        "self.compact_knowledge('''one\ntwo''')\nx = 2",
        "display(x)",
        "(x +\n 4)  # shown",
        ("x * 3", VALUE),
        ("print(_)", "6\n"),
    )
    assert ran(text) == "2\n6\n6\n"
    assert "# self.compact_knowledge" in text


def test_names_that_nobody_makes_are_named_at_the_top(tmp_path):
    text = program(tmp_path, ("print(len(df), 'and more')", "3\n"), answer="3")
    assert "# It reads names that no block of the run makes: df\n" in text


def test_of_a_chat_what_each_answer_goes_by_is_there(tmp_path):
    run = recorded(
        tmp_path / "run", ("print(6 * 7)", "42\n"), ("print('look')", "look\n"), answer="It is 42."
    )
    second = [RunStarted("s", "And?", "m", "s", 30.0), Appended(2, Task("And?")), TurnStarted(3, 31.0)]
    for event in [*second, RunEnded("answered", "Nothing.", Usage(), 1, 32.0)]:
        run.transcript.apply(event)
    text = script(run)
    assert text.startswith("# Do it.\n# All of it.\n# \n# And?\n")
    assert ran(text) == "42\n"

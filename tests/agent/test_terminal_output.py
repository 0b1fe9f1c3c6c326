"""What of output that was meant for a terminal the model, the record and a person get to see, with a real kernel."""

from __future__ import annotations

import io
import json
import re

import nbformat
import pytest
from rich.console import Console

from codeact_kernel import Agent
from codeact_kernel.cli.streams import json_line
from codeact_kernel.cli.told import told_result
from codeact_kernel.events import BlockFinished
from codeact_kernel.testing import ScriptedModel

pytestmark = pytest.mark.kernel

BAR = """
import sys, time
def bar(total, file, wait=0.0):
    for n in range(total + 1):
        file.write(f"\\r{n * 100 // total:3}%|{'#' * n}{' ' * (total - n)}| {n}/{total}")
        file.flush()
        time.sleep(wait)
    file.write("\\n")
"""


def block(code, **attributes):
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<run_code{written}>\n{code}\n</run_code>"


class Told:
    """What became of one block: for the model, in the record, in the journal, and on a screen."""

    def __init__(self, model, events, run):
        self.model = model
        self.observations = [request.messages[-1].content for request in model.requests[1:]]
        self.body = re.sub(r"^<.*?>\n|</run_code_result.*?>$", "", self.observations[-1])
        notebook = nbformat.read(run.record, as_version=4)
        nbformat.validate(notebook)
        self.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        lines = (run.record.parent / "journal.jsonl").read_bytes().decode("ascii").splitlines()
        self.journal = [json.loads(line) for line in lines]
        ends = [event.result for event in events if isinstance(event, BlockFinished)]
        screen = Console(file=io.StringIO(), width=100)
        screen.print(*map(told_result, ends))
        self.screen = screen.file.getvalue()
        self.lines = [json_line(event) for event in events]


async def tell(tmp_path, *replies):
    events = []
    model = ScriptedModel([*replies, "done"])
    async with Agent(model, workspace=tmp_path, observers=[events.append]) as agent:
        run = await agent.run("x")
    return Told(model, events, run)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_of_a_progress_bar_the_model_reads_the_last_state(tmp_path, stream):
    told = await tell(tmp_path, block(f"{BAR}bar(40, sys.{stream})\nprint('then')"))
    assert told.body == f"100%|{'#' * 40}| 40/40\nthen\n"


async def test_each_heartbeat_in_the_middle_of_a_bar_is_one_whole_state(tmp_path):
    code = f"{BAR}bar(20, sys.stdout, 0.1)"
    told = await tell(tmp_path, block(code, heartbeat="500ms"), *["I wait."] * 20)
    beats = told.observations[:-1]
    assert len(beats) >= 2
    for beat in beats:
        (line,) = beat.splitlines()[1:-1]
        assert re.fullmatch(r" *\d+%\|#+ *\| (\d+)/20", line)
    assert told.body == f"100%|{'#' * 20}| 20/20\n"


async def test_cleared_and_updated_output_is_what_a_notebook_shows(tmp_path):
    code = """
from IPython.display import clear_output, display
handle = display({"text/plain": "0/3"}, raw=True, display_id="n")
for n in range(1, 4):
    handle.update({"text/plain": f"{n}/3"}, raw=True)
print("kept")
"""
    told = await tell(tmp_path, block(code))
    assert told.body == "3/3\nkept\n"
    (cell,) = told.cells
    assert [output.output_type for output in cell.outputs] == ["display_data", "stream"]
    assert cell.outputs[0].data["text/plain"] == "3/3"
    loop = "for n in range(50):\n    clear_output(wait=True)\n    print('step', n)"
    told = await tell(tmp_path, block(f"from IPython.display import clear_output\n{loop}"))
    assert told.body == "step 49\n"
    assert [output.text for output in told.cells[0].outputs] == ["step 49\n"]


async def test_colours_do_not_count_for_the_length(tmp_path):
    code = "for n in range(300):\n    print(''.join(f'\\x1b[38;5;{n % 256}m{c}\\x1b[0m' for c in 'word'))"
    told = await tell(tmp_path, block(code))
    assert told.body == "word\n" * 300


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (r"print('a\ud800b')", "a\ufffdb\n"),
        (r"print('a\x00b')", "a\ufffdb\n"),
        (r"import subprocess, sys; subprocess.run([sys.executable, '-c', WRITE])", "a\ufffdb\n"),
        (r"import os; print(os.write(1, b'a\xffb\n') and '', end='', flush=True)", "a\ufffdb\n"),
        (
            r"display({'text/plain': 'a\ud800b', 'application/json': {'\udfff': '\x00'}}, raw=True)",
            "a\ufffdb\n",
        ),
        (r"raise ValueError('a\ud800b')", "ValueError: a\ufffdb\n"),
    ],
)
async def test_what_no_text_can_hold_becomes_a_mark_everywhere(tmp_path, code, shown):
    code = code.replace("WRITE", repr("import os; os.write(1, b'a\\xffb\\n')"))
    told = await tell(tmp_path, block(code))
    assert told.body.endswith(shown)
    assert "a\ufffdb" in told.screen
    for text in (told.body, json.dumps(told.journal, ensure_ascii=False), told.screen, *told.lines):
        text.encode()
        assert "UnicodeEncodeError" not in text
        assert "UnicodeDecodeError" not in text
    json.dumps([dict(cell) for cell in told.cells], ensure_ascii=False).encode()


async def test_the_hint_of_a_shortened_result_gives_the_rest_by_characters_by_lines_and_by_search(tmp_path):
    def hint(request):
        (found,) = re.findall(r"left out here: (.*?) has all of it\]", request.messages[-1].content)
        hints.append(found)
        return block(found)

    def use(request):
        rest = "it.search('line 4999[0-9]$')[:2], len(it)"
        return block(f"it = {hints[0]}\nprint(it[10:20], it.lines(1234, 1236), {rest})")

    hints = []
    told = await tell(tmp_path, block("for n in range(50_000): print('line', n)", id="many"), hint, use)
    whole = "".join(f"line {n}\n" for n in range(50_000))
    assert "it[a:b], it.lines(a, b), it.search(pattern)" in told.observations[1]
    found = [(49990, "line 49990"), (49991, "line 49991")]
    assert told.body == f"{whole[10:20]} {['line 1234', 'line 1235']} {found} {len(whole)}\n"

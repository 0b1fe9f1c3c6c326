"""`%agent` in real kernels, ours and a stock one, with an endpoint that says what a script tells it."""

from __future__ import annotations

import os
import re
import subprocess

import psutil
import pytest
from magic_notebook import Notebook

from codeact_kernel.testing import ScriptedEndpoint

pytestmark = pytest.mark.kernel


def block(code, name=""):
    return f"<run_code{f' id={name}' * bool(name)}>\n{code}\n</run_code>"


SAYS = {
    "outliers": [
        "Let me look.\n" + block("print(df.x.sum())"),
        block("self.return_value(df[df.x > 2])"),
        "Two of **them**.",
    ],
    "go on": ["I go on."],
    "sleep": [
        block("import time\nprint('it', 'sleeps', flush=True)\ntime.sleep(60)", "long"),
        "It was long.",
    ],
    "write": [block("open('written.txt', 'w').write('1')"), "It is written."],
    "slowly": [block("import time\ntime.sleep(0.5)\nprint('in the ' + 'back')"), "Done behind."],
    "fix": ["It is `name`, with one `m`."],
    "key": [block("import os\nprint(os.environ.get('LLM_API_KEY'))"), "No key."],
}
"""What the model says by a word of the task."""


def reply(asked):
    """The next reply for the newest task of a conversation."""
    texts = [(m["role"], str(m["content"])) for m in asked.body["messages"]]
    at, word = max((i, w) for i, (role, t) in enumerate(texts) if role == "user" for w in SAYS if w in t)
    given = sum(role == "assistant" for role, _ in texts[at:])
    return SAYS[word][min(given, len(SAYS[word]) - 1)]


@pytest.fixture(scope="module")
def endpoint():
    with ScriptedEndpoint(reply) as served:
        yield served


def opened(kernel, endpoint, folder):
    env = {
        **os.environ,
        "CODEACT_MODEL": "scripted",
        "LLM_BASE_URL": endpoint.base_url,
        "LLM_API_KEY": "sk-the-secret-key",
        "CODEACT_DATA_DIR": str(folder / "data"),
    }
    book = Notebook(kernel, folder, env)
    book.folder, book.endpoint = folder, endpoint
    assert book.run("%load_ext codeact_kernel\nimport pandas as pd").status == "ok"
    return book


@pytest.fixture(scope="module", params=["python3", "codeact"])
def book(request, endpoint, tmp_path_factory):
    book = opened(request.param, endpoint, tmp_path_factory.mktemp("nb"))
    yield book
    book.close()


@pytest.fixture
def notebook(book):
    """A notebook that has a table, whatever other tests have done in it."""
    assert book.run("df = pd.DataFrame({'x': [1, 2, 3, 4], 'name': ['secret'] * 4})").status == "ok"
    return book


def gone(processes):
    _, alive = psutil.wait_procs(processes, 10)
    return not alive


def test_a_task_on_a_copy_of_a_variable_gives_its_object_back(notebook):
    cell = notebook.run("%%agent --new --rerun -n df -o out\nFind the {outliers}, don't lie")
    assert cell.status == "ok", cell.text
    (shown,) = cell.shown.values()
    assert re.search(
        r"Let me look\.\n\n>>> print\(df\.x\.sum\(\)\)\n10\n\n.*Two of \*\*them\*\*\.",
        shown["text/plain"],
        re.S,
    )
    assert "<strong>them</strong>" in shown["text/html"]
    assert shown["application/vnd.codeact.run+json"]["bar"]["state"] == "answered"
    assert notebook.run("print(type(out).__name__, list(out.x), len(df))").text == "DataFrame [3, 4] 4\n"
    task = notebook.endpoint.requests[-3].body["messages"][-1]["content"]
    assert task.startswith("Find the {outliers}, don't lie\n\n(You have copies")
    assert "df: pandas.DataFrame, 4x2, columns x (int64)" in task
    assert "secret" not in str([r.body for r in notebook.endpoint.requests])


def test_the_same_agent_goes_on_and_a_question_is_no_wish_for_help(notebook):
    notebook.run("%agent --new --rerun -n df outliers")
    cell = notebook.run("%agent -o said can you go on?")
    assert "I go on." in cell.text
    assert notebook.run("print(said)").text == "I go on.\n"
    assert any("outliers" in str(m["content"]) for m in notebook.endpoint.requests[-1].body["messages"])
    listed = notebook.run("%agents").text
    assert "answered" in listed
    assert "can you go on?" in listed


def test_fix_sends_the_error_and_the_cells_behind_it_and_nothing_else(notebook):
    notebook.run("unused = 'marked-1'\nprint('marked-2')")
    notebook.run("name = 'marked-3' + str(4)\ndef greet():\n    return 'Hello ' + nmae")
    assert notebook.run("greet()").status == "error"
    cell = notebook.run("%agent --new --rerun fix")
    assert "with one `m`" in cell.text
    sent = notebook.run("%agent --sent").text
    assert sent.startswith("Request 1 of 1, 2 messages:\n--- system\n")
    assert "```python\ngreet()\n```" in sent
    assert "NameError: name 'nmae' is not defined" in sent
    assert "def greet():" in sent
    assert "IPython" not in sent.partition("Traceback")[2]
    assert "marked-1" not in sent
    assert "marked-2" not in sent
    assert sent == notebook.run("%agent --sent 1").text
    assert notebook.run("%agent --sent 9").problem == "there is no request 9 here: 1 were sent"


def test_no_value_leaves_before_a_block_prints_it(notebook):
    notebook.run("marked = 'marked-4'\nrows = pd.DataFrame({'a': ['marked-5']})\nprint(marked, rows)")
    notebook.run("%agent --new --rerun -n rows go on with marked and rows")
    sent = notebook.run("%agent --sent").text
    assert "- marked: str, 8 characters" in sent
    assert "- rows: pandas.DataFrame, 1x1, columns a (" in sent
    assert "marked-4" not in sent
    assert "marked-5" not in sent
    notebook.run("%agent --new --rerun --describe none go on with marked and rows")
    assert "DataFrame" not in notebook.run("%agent --sent").text.partition("--- user")[2]


def test_stop_ends_the_block_and_the_agent_can_go_on(notebook):
    cell = notebook.run("%agent --new --rerun sleep now", seen="it sleeps", then=notebook.interrupt)
    assert cell.problem == "The agent was stopped in block long, and `%agent` goes on with it."
    assert cell.seconds < 30
    assert "KeyboardInterrupt" in cell.text
    assert notebook.run("print(1 + 1)").text == "2\n"
    assert "I go on." in notebook.run("%agent go on").text


def test_a_stop_while_the_agent_starts_is_one_too(notebook):
    cell = notebook.run("%agent --new --rerun go on", seen="the agent starts", then=notebook.interrupt)
    assert cell.problem == "The agent was stopped before its first block, and `%agent` goes on with it."
    assert "I go on." in notebook.run("%agent --rerun go on").text


def test_in_the_background_other_cells_run_and_the_output_is_updated(notebook):
    cell = notebook.run("%agent --new --rerun --background slowly please")
    assert notebook.run("print('free')").text == "free\n"
    assert "the agent is at work" in notebook.run("%agent go on").text
    notebook.until("Done behind.")
    assert cell.status == "ok"


def test_a_note_reaches_the_agent_while_its_cell_waits(notebook):
    notebook.run("%agent --new go on")
    assert notebook.run("%agent --steer 'too early'").problem == "the agent is not at work"


def test_what_needs_approval_is_asked_below_the_cell(notebook):
    cell = notebook.run("%agent --new --rerun --approve ask write it", answers=["not there"])
    assert cell.prompts == ["[y]es, [a]lways, or why not: "]
    assert "open('written.txt', 'w')" in cell.text
    assert "not there" in str(notebook.endpoint.requests[-1].body["messages"][-1])
    assert not (notebook.folder / "written.txt").exists()
    assert notebook.run("%agent write it again", answers=["y"]).status == "ok"
    assert (notebook.folder / "written.txt").read_text() == "1"


def test_an_agent_is_not_changed_behind_its_back(notebook):
    notebook.run("%agent --new go on")
    assert (
        "has begun without --model other, and goes on as it is: add --new"
        in notebook.run("%agent -m other x").problem
    )


def test_the_agents_kernel_does_not_have_the_key(notebook):
    cell = notebook.run("%agent --new --rerun what is the key")
    assert ">>> import os" in cell.text
    assert "\nNone\n" in cell.text
    assert "sk-the-secret-key" not in cell.text


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("%agent", "%agent: there is no task. `%agent?` tells how."),
        ("%agent -n nope x", "-n: there is no nope in this notebook"),
        ("%agent -o 3x x", "-o: '3x' is no name"),
        ("%agent --stop", "the agent is not at work"),
        ("%agent --new --sandbox moon x", "sandbox"),
        ("%agent --new -m replay:nope.ipynb x", "nope.ipynb"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(notebook, line, why):
    notebook.run("%agent --new go on")
    cell = notebook.run(line)
    assert (cell.status, why in cell.problem, "Traceback" in cell.problem) == ("error", True, False), (
        cell.problem
    )


def test_help_tells_all_options(notebook):
    notebook.client.execute("")
    reply = notebook.client.inspect("%agent", 6, reply=True, timeout=30)["content"]
    assert "--max-turns" in reply["data"]["text/plain"]


def test_what_was_answered_before_is_shown_again_free_and_gone_on_with(notebook):
    notebook.run("rows = pd.DataFrame({'x': [1, 5]})\ndf = rows")
    first = notebook.run("%%agent --new --rerun -n df -o out\noutliers, please")
    asked = len(notebook.endpoint.requests)
    notebook.run("out = None")
    again = notebook.run("%%agent --new -n df -o out\noutliers, please")
    assert len(notebook.endpoint.requests) == asked
    assert "Two of **them**." in again.text
    assert "; --rerun asks again.]" in again.text
    assert again.shown.keys() == first.shown.keys()
    assert notebook.run("print(list(out.x))").text == "[5]\n"
    assert "I go on." in notebook.run("%agent go on").text
    assert any(
        "outliers, please" in str(m["content"]) for m in notebook.endpoint.requests[-1].body["messages"]
    )
    notebook.run("df = rows.assign(x=[7, 8])")
    notebook.run("%%agent --new -n df -o out\noutliers, please")
    assert notebook.run("print(list(out.x))").text == "[7, 8]\n"


def test_a_record_is_shown_again_and_nothing_runs(notebook):
    notebook.run("%agent --new --rerun -n df outliers")
    asked = len(notebook.endpoint.requests)
    record = next((notebook.folder / ".codeact" / "runs").glob("*outliers*"))
    cell = notebook.run(f"%agent --replay {record} --speed 0")
    assert "Let me look." in cell.text
    assert ">>> print(df.x.sum())" in cell.text
    assert "Two of **them**." in cell.text
    assert "a replay: nothing ran" in cell.text
    assert len(notebook.endpoint.requests) == asked
    assert "there is no record" in notebook.run("%agent --replay nope").problem
    stepped = notebook.run(f"%agent --replay {record} --step", answers=[""] * 5)
    assert stepped.prompts[:2] == ["— Enter shows the next turn —"] * 2
    slow = notebook.run(f"%agent --replay {record} --speed 0.0001", seen="Let me", then=notebook.interrupt)
    assert "was stopped" in slow.problem


def test_no_host_and_no_agents_kernel_outlive_the_notebook(endpoint, tmp_path):
    notebook = opened("codeact", endpoint, tmp_path)
    try:
        notebook.run("%agent --background sleep")
        notebook.until("it sleeps")
        kernel = psutil.Process(notebook.manager.provisioner.pid)
        family = kernel.children(recursive=True)
        assert len(family) >= 2
        os.kill(kernel.pid, 9)
        assert gone(family)
    finally:
        notebook.close()


def test_a_terminal_shows_text(endpoint, tmp_path):
    env = {**os.environ, "CODEACT_MODEL": "scripted", "LLM_BASE_URL": endpoint.base_url, "LLM_API_KEY": "x"}
    env["IPYTHONDIR"] = str(tmp_path)
    command = ["ipython", "--simple-prompt", "--no-banner", "--colors=NoColor"]
    lines = "%load_ext codeact_kernel\n%agent -o said please go on\nprint([said])\n"
    how = {"env": env, "cwd": tmp_path, "text": True, "timeout": 60, "check": True}
    done = subprocess.run(command, input=lines, capture_output=True, **how)
    assert "I go on.\n" in done.stdout
    assert "[agent answered · scripted" in done.stdout
    assert "['I go on.']" in done.stdout

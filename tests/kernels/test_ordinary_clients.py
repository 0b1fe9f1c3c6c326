"""Ordinary Jupyter clients see an ordinary kernel."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import jupyter_kernel_test
import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager, start_new_kernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

pytestmark = [pytest.mark.kernel, pytest.mark.filterwarnings("ignore")]


class TestPublicSuite(jupyter_kernel_test.KernelTests):
    """The public suite for kernels."""

    kernel_name = "codeact"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples = ["import = 7q"]
    code_page_something = "zip?"
    code_generate_error = "raise ValueError('x')"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
    ]
    code_display_data = [
        {
            "code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))",
            "mime": "text/html",
        },
        {
            "code": "from IPython.display import Math, display; display(Math('\\frac{1}{2}'))",
            "mime": "text/latex",
        },
    ]
    code_history_pattern = "1?2*"
    # Not "range": the suite expects a session number that IPython reports as 0, in the stock kernel as well.
    supported_history_operations = ("tail", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


class TestWelcome(jupyter_kernel_test.IopubWelcomeTests):
    """The welcome on iopub."""

    kernel_name = "codeact"
    support_iopub_welcome = True


@pytest.fixture
def client(tmp_path):
    manager, client = start_new_kernel(kernel_name="codeact", cwd=str(tmp_path))
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_the_kernelspec_is_installed_with_its_logo():
    spec = KernelSpecManager().get_kernel_spec("codeact")
    assert spec.display_name == "CodeAct (Python 3)"
    assert spec.interrupt_mode == "message"
    assert {p.name for p in Path(spec.resource_dir).iterdir()} >= {
        "kernel.json",
        "logo-32x32.png",
        "logo-64x64.png",
        "logo-svg.svg",
    }


def test_nbclient_runs_a_notebook(tmp_path):
    notebook = nbformat.v4.new_notebook()
    codes = ["import asyncio\nx = 1", "await asyncio.sleep(0.05)\nx += 1", "print(x)", "x * 21"]
    notebook.cells = [nbformat.v4.new_code_cell(code) for code in codes]
    NotebookClient(notebook, kernel_name="codeact", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert notebook.cells[2].outputs[0].text == "2\n"
    assert notebook.cells[3].outputs[0].data["text/plain"] == "42"
    assert [cell.execution_count for cell in notebook.cells] == [1, 2, 3, 4]


def test_nbclient_stops_at_an_error():
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(code) for code in ("1 / 0", "print('never')")]
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        NotebookClient(notebook, kernel_name="codeact").execute()
    assert notebook.cells[1].outputs == []


def test_requests_sent_at_once_run_in_order_also_across_lanes(client):
    codes = [
        "import asyncio, time\nout = []",
        "time.sleep(0.2); out.append(1)",
        "await asyncio.sleep(0.1); out.append(2)",
        "out.append(3)",
        "out",
    ]
    ids = [client.execute(code) for code in codes]
    replies = {}
    while not replies.keys() >= set(ids):
        message = client.get_shell_msg(timeout=10)
        replies[message["parent_header"]["msg_id"]] = message["content"]
    assert [replies[i]["execution_count"] for i in ids] == [1, 2, 3, 4, 5]
    texts = []
    while not texts:
        message = client.get_iopub_msg(timeout=10)
        if message["msg_type"] == "execute_result":
            texts.append(message["content"]["data"]["text/plain"])
    assert texts == ["[1, 2, 3]"]


def test_an_error_aborts_what_the_client_has_queued_behind_it(client):
    ids = [client.execute(code) for code in ("import time\ntime.sleep(0.3)\n1/0", "x = 1", "x = 2")]
    replies = {}
    while not replies.keys() >= set(ids):
        message = client.get_shell_msg(timeout=10)
        replies[message["parent_header"]["msg_id"]] = message["content"]["status"]
    assert [replies[i] for i in ids] == ["error", "aborted", "aborted"]
    assert (
        client.execute_interactive("print('goes on')", timeout=10, output_hook=lambda m: None)["content"][
            "status"
        ]
        == "ok"
    )


def test_each_request_gets_one_busy_one_reply_and_one_idle(client):
    codes = [
        "1",
        "1/0",
        "import asyncio; await asyncio.sleep(0)",
        "raise SystemExit",
        "x = (",
        "%nosuchmagic",
        "!exit 3",
    ]
    ids = [client.execute(code, stop_on_error=False) for code in codes]
    replies = []
    while len(replies) < len(ids):
        # A slow start leaves a second answer to the client's first question behind.
        message = client.get_shell_msg(timeout=10)
        if message["msg_type"] == "execute_reply":
            replies.append(message["parent_header"]["msg_id"])
    assert sorted(replies) == sorted(ids)
    states = {i: [] for i in ids}
    while [s for s in states.values() if s[-1:] != ["idle"]]:
        message = client.get_iopub_msg(timeout=10)
        parent = message["parent_header"].get("msg_id")
        if message["msg_type"] == "status" and parent in states:
            states[parent].append(message["content"]["execution_state"])
    assert set(map(tuple, states.values())) == {("busy", "idle")}


def test_a_client_that_allows_stdin_is_asked(client):
    msg_id = client.execute("name = input('who? ')\nprint('hello', name)", allow_stdin=True)
    request = client.get_stdin_msg(timeout=10)
    assert request["content"]["prompt"] == "who? "
    client.input("Ada")
    while True:
        message = client.get_iopub_msg(timeout=10)
        if message["msg_type"] == "stream" and message["parent_header"]["msg_id"] == msg_id:
            assert message["content"]["text"] == "hello Ada\n"
            return


def test_widgets_open_their_comms(client):
    seen = []
    code = "import ipywidgets\ns = ipywidgets.IntSlider()\ndisplay(s)"
    reply = client.execute_interactive(code, timeout=20, output_hook=lambda m: seen.append(m["msg_type"]))
    assert reply["content"]["status"] == "ok"
    assert "comm_open" in seen
    assert "display_data" in seen


def test_a_subshell_answers_while_the_main_shell_sleeps(client):
    client.execute("import time; time.sleep(1.5)")
    message = client.session.msg("create_subshell_request", {})
    client.control_channel.send(message)
    subshell = client.get_control_msg(timeout=10)["content"]["subshell_id"]
    message = client.session.msg(
        "execute_request",
        {
            "code": "print('beside')",
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        },
    )
    message["header"]["subshell_id"] = subshell
    client.shell_channel.send(message)
    reply = client.get_shell_msg(timeout=10)
    while reply["msg_type"] != "execute_reply":
        reply = client.get_shell_msg(timeout=10)
    assert reply["parent_header"]["msg_id"] == message["header"]["msg_id"]
    assert reply["content"]["status"] == "ok"


def test_what_the_first_cell_puts_out_waits_for_a_client_that_subscribes_late():
    manager = KernelManager(kernel_name="codeact")
    manager.start_kernel()
    client = manager.blocking_client()
    try:
        client.start_channels(iopub=False, hb=False)
        asked = client.execute("print('early')")
        while client.get_shell_msg(timeout=30)["parent_header"]["msg_id"] != asked:
            pass
        client.iopub_channel.start()
        said = []
        while not said or said[-1]["content"].get("execution_state") != "idle":
            message = client.get_iopub_msg(timeout=10)
            said += [message] if message["parent_header"].get("msg_id") == asked else []
        assert "early\n" in [message["content"].get("text") for message in said]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.context.destroy(linger=0)


def test_jupyter_console_runs_code_and_leaves():
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "jupyter_console",
            "--kernel",
            "codeact",
            "--simple-prompt",
            "--ZMQTerminalInteractiveShell.confirm_exit=False",
        ],
        input="print(6 * 7)\nexit\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "42" in result.stdout


def test_jupyter_run_prints_each_line_once(tmp_path):
    file = tmp_path / "file.py"
    file.write_text(
        "import os\nprint('printed')\nos.system('echo from a child')\nos.write(1, b'written\\n');"
    )
    command = [sys.executable, "-m", "jupyter", "run", "--kernel", "codeact", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines() == ["printed", "from a child", "written"]


def test_jupyter_execute_and_nbconvert_run_a_notebook(tmp_path):
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "codeact", "display_name": "CodeAct"}}
    )
    codes = ["import asyncio\nawait asyncio.sleep(0.01)\nx = 41", "x + 1"]
    notebook.cells = [nbformat.v4.new_code_cell(code) for code in codes]
    nbformat.write(notebook, tmp_path / "in.ipynb")
    jupyter = [sys.executable, "-m", "jupyter"]
    for command in (
        ["execute", "--output=out.ipynb", "in.ipynb"],
        ["nbconvert", "--to=notebook", "--execute", "--output=converted.ipynb", "in.ipynb"],
    ):
        subprocess.run([*jupyter, *command], cwd=tmp_path, capture_output=True, timeout=120, check=True)
    for name in ("out.ipynb", "converted.ipynb"):
        assert nbformat.read(tmp_path / name, 4).cells[1].outputs[0].data["text/plain"] == "42"


def test_the_kernelspec_file_is_what_is_shipped():
    here = Path(__file__).resolve().parents[2] / "kernelspec" / "kernel.json"
    assert json.loads(here.read_text())["argv"][-5:] == [
        "-m",
        "codeact_kernel.inkernel",
        "-f",
        "{connection_file}",
        "--CodeactApp.magic=True",
    ]


def test_completion_and_inspection_answer_while_a_block_holds_the_main_thread(client, tmp_path):
    code = "import time\nfrom pathlib import Path\nspecial_name = 1"
    client.execute_interactive(code, timeout=10, output_hook=lambda m: None)
    held = client.execute("while not Path('go').exists():\n    time.sleep(0.01)")
    client.complete("special_na")
    client.inspect("special_name")
    client.kernel_info()
    replies = {}
    while len(replies) < 3:
        message = client.get_shell_msg(timeout=30)
        assert message["parent_header"]["msg_id"] != held
        replies[message["msg_type"]] = message["content"]
    (tmp_path / "go").touch()
    assert "special_name" in replies["complete_reply"]["matches"]
    assert replies["inspect_reply"]["found"]


def test_a_person_s_cell_runs_beside_an_agent_s_block(client):
    message = client.session.msg("execute_request", {"code": "import time; time.sleep(2)", "silent": False})
    message["metadata"] = {"codeact": {"id": "long", "reply": 1}}
    client.shell_channel.send(message)
    begun = time.monotonic()
    reply = client.execute_interactive("print('beside')", timeout=10, output_hook=lambda m: None)
    assert reply["content"]["status"] == "ok"
    assert time.monotonic() - begun < 1.5

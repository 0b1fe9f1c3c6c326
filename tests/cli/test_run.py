"""`codeact run` as a script sees it: stdout, stderr, the exit code, the record."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
from image_files import quarters, saved

from codeact_kernel.messages import Usage
from codeact_kernel.testing.replies import EndpointReply

ANSWER = "It is 42: é, 日本."


@pytest.mark.parametrize("protocol", ["tags", "tools", "json"])
def test_the_prompt_is_shown_without_a_task_a_key_or_a_kernel(codeact, place, protocol):
    (place / "my_tools.py").write_text(
        'def search(topic: str, limit: int = 5) -> list[str]:\n    """Find it."""\n'
    )
    said = codeact("run", "--show-prompt", "--protocol", protocol, "--tools", "my_tools.py")
    assert (said.code, said.err) == (0, "")
    assert "- search(topic: str, limit: int = 5) -> list[str]: Find it.\n" in said.out
    assert ("<run_code" in said.out) is (protocol == "tags")
    assert f"Working directory: {place.resolve()}" in said.out
    assert list(place.glob(".codeact")) == []


def test_a_module_of_the_current_folder_is_found_but_never_before_an_installed_one(
    codeact, place, monkeypatch
):
    monkeypatch.delitem(sys.modules, "tabnanny", raising=False)
    (place / "only_here.py").write_text('def mine():\n    """Mine."""\n')
    (place / "tabnanny.py").write_text('def not_theirs():\n    """Not that of Python."""\n')
    assert "- mine(): Mine." in codeact("run", "--show-prompt", "--tools", "only_here").out
    assert "not_theirs" not in codeact("run", "--show-prompt", "--tools", "tabnanny").out


def test_the_web_search_of_the_settings_is_among_the_built_in_tools(codeact, place):
    said = codeact("run", "--show-prompt", "--tools", "builtin:web")
    assert "await web_search" not in said.out
    (place / "codeact.toml").write_text('[search]\napi = "searxng"\nurl = "http://localhost/?q={query}"\n')
    said = codeact("run", "--show-prompt", "--tools", "builtin:web", "--trust-workspace")
    assert "- await web_search(query: str, limit: int = 10)" in said.out
    (place / "codeact.toml").write_text('[search]\napi = "brave"\nkey_env = "NO_SUCH_KEY"\n')
    said = codeact("run", "--show-prompt", "--tools", "builtin:web", "--trust-workspace")
    assert said.code == 2
    assert "the variable NO_SUCH_KEY, which shall hold the key, is not set here" in said.err


def test_the_settings_of_the_workspace_hold_and_the_command_line_goes_over_them(codeact, place):
    (place / "elsewhere").mkdir()
    (place / "elsewhere" / "codeact.toml").write_text('protocol = "json"\nblock_timeout = "7m"\n')
    said = codeact("run", "--show-prompt", "--workspace", "elsewhere")
    assert '{"name": "run_code"' in said.out
    assert "(without it 7m)" in said.out
    assert (
        "<run_code" in codeact("run", "--show-prompt", "--workspace", "elsewhere", "--protocol", "tags").out
    )


def test_a_model_that_sees_is_named_and_the_prompt_tells_of_it(codeact, place):
    assert "ask_vision" not in codeact("run", "--show-prompt").out
    assert "- await ask_vision(" in codeact("run", "--show-prompt", "--vision-model", "seer").out
    (place / "codeact.toml").write_text('[models]\nvision = "seer"\n')
    assert "- await ask_vision(" in codeact("run", "--show-prompt", "--trust-workspace").out


@pytest.mark.parametrize(("name", "words"), [("vision", "add [models.vision]"), ("local", "reads no images")])
def test_a_model_that_cannot_see_is_said_before_a_kernel_starts(codeact, name, words):
    said = codeact(
        "run", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--vision-model", name, "Look."
    )
    assert said.code == 2
    assert words in said.line


def test_a_kernel_that_is_not_there_is_said_with_the_prompt_too(codeact):
    said = codeact("run", "--show-prompt", "--kernel", "no-such-kernel")
    assert said.code == 2
    assert "there is no kernel named 'no-such-kernel'; `--kernel` knows: " in said.line
    said = codeact("run", "--show-prompt", "--python", "no-such-python")
    assert said.code == 2
    assert "no-such-python is no interpreter" in said.line


def test_a_task_on_stdin_that_is_no_text_is_said(place):
    command = [sys.executable, "-m", "codeact_kernel.cli", "run", "-"]
    for data, words in ((b"\xff\xfe", "no UTF-8 text"), (b" \n", "there is no task")):
        done = subprocess.run(command, input=data, capture_output=True, check=False)
        assert done.returncode == 2
        assert words in done.stderr.decode()
        assert done.stdout == b""


@pytest.mark.kernel
def test_the_answer_is_all_that_is_on_stdout_and_stderr_is_silent(piped, scripted, block, record):
    model = scripted(["I see.\n" + block("print(6 * 7)", id="a"), ANSWER])
    said = piped("run", *model, "What is 6 times 7?").end()
    assert (said.code, said.out, said.err) == (0, ANSWER + "\n", "")
    (cell,) = [cell for cell in record()["cells"] if cell["cell_type"] == "code"]
    assert cell["outputs"][0]["text"] in ("42\n", ["42\n"])


@pytest.mark.kernel
def test_the_prompt_that_is_shown_is_the_one_that_is_sent(piped, codeact, scripted, place):
    (place / "my_tools.py").write_text('async def fetch(url):\n    """Get it."""\n')
    sent = []
    model = scripted(lambda request: sent.append(request.messages[0]["content"]) or "Yes.")
    assert piped("run", *model, "--tools", "my_tools.py", "Are you there?").end().code == 0
    assert codeact("run", "--show-prompt", "--tools", "my_tools.py").out == sent[0] + "\n"


@pytest.mark.kernel
def test_a_block_asks_the_model_that_sees_and_what_it_used_is_told(piped, scripted, block, place):
    (place / "a.png").write_bytes(saved(quarters()))
    by_model = {"scripted": iter([block('print(await ask_vision("What?", files=["a.png"]))'), "A flag."])}
    by_model["seer"] = iter([EndpointReply("A flag of four colours.", usage=Usage(123_456, 0, 7))])
    model = scripted(lambda request: next(by_model[request.body["model"]]))
    said = piped("run", *model, "--vision-model", "seer", "--json", "What is in a.png?").end()
    assert said.code == 0
    told = {event["type"]: event for event in said.events}
    assert told["ModelUsed"]["model"] == "seer"
    assert told["RunEnded"]["answer"] == "A flag."
    assert told["RunEnded"]["usage"]["input_tokens"] > 123_456
    assert "A flag of four colours." in json.dumps(told["BlockOutput"])
    assert "iVBOR" not in said.out


@pytest.mark.kernel
def test_events_come_one_a_line_in_order_and_nothing_else_is_on_stdout(piped, scripted, block, place):
    (place / "noisy.py").write_text(
        'import os\nprint("loading")\ndef shout(text):\n    print("I shout")\n    os.system("echo a child shouts")\n'
        "    return text.upper()\n"
    )
    code = (
        'from IPython.display import display\nprint(shout("hi"), "\\x1b[31m")\ndisplay({"x": float("nan")})'
    )
    model = scripted([block(code, id="a"), ANSWER])
    said = piped("run", *model, "--json", "--tools", "noisy.py", "Go.").end()
    assert said.code == 0
    kinds = [event["type"] for event in said.events]
    assert (kinds[0], kinds[-1]) == ("RunStarted", "RunEnded")
    assert {"BlockQueued", "BlockStarted", "ToolCalled", "ToolReturned", "BlockOutput"} < set(kinds)
    assert kinds.index("BlockQueued") < kinds.index("BlockStarted") < kinds.index("BlockFinished")
    assert said.events[-1]["answer"] == ANSWER
    outputs = [event["output"] for event in said.events if event["type"] == "BlockOutput"]
    assert "HI" in "".join(output["text"] for output in outputs if output["type"] == "StreamOutput")
    assert any(output["type"] == "DisplayOutput" for output in outputs)
    assert sorted(said.err.splitlines()) == ["I shout", "a child shouts", "loading"]


@pytest.mark.kernel
def test_a_task_comes_from_stdin(piped, scripted):
    asked = []
    model = scripted(lambda request: asked.append(request.messages[-1]["content"]) or "Yes.")
    said = piped("run", *model, "-", stdin=subprocess.PIPE).end("\ufeffRead é\nand this.\n")
    assert said.out == "Yes.\n"
    assert asked == ["Read é\nand this.\n"]


@pytest.mark.kernel
def test_at_a_limit_the_exit_code_is_3_and_the_record_is_kept(piped, scripted, block, record):
    model = scripted(lambda request: block("import time\ntime.sleep(0.01)"))
    said = piped("run", *model, "--max-turns", 2, "Go on for ever.").end()
    assert (said.code, said.out) == (3, "")
    assert said.line.startswith("codeact: 2 turns are used up; `codeact resume ")
    assert said.line.endswith(" --max-turns N` goes on with more")
    assert record()["metadata"]["codeact"]


@pytest.mark.kernel
def test_a_standing_goal_goes_on_after_answers_until_it_is_met(piped, scripted, block, record):
    model = scripted(["I begin.", block('print("x")'), "GOAL MET: x was printed"])
    said = piped("run", *model, "--goal", "Print x.").end()
    assert (said.code, said.out) == (0, "GOAL MET: x was printed\n")


@pytest.mark.kernel
def test_a_command_tells_whether_the_goal_is_met_and_a_limit_ends_it_all_the_same(
    piped, scripted, block, place
):
    turns = iter(range(100))

    def script(request):
        number = next(turns)
        return "Done." if number % 2 else block(f"open('n.txt', 'a').write('x')  # {number}")

    model = scripted(script)
    said = piped("run", *model, "--until", "grep xxx n.txt", "Write three.").end()
    assert (said.code, said.out) == (0, "Done.\n")
    assert (place / "n.txt").read_text() == "xxx"
    said = piped("run", *model, "--until", "false", "--max-turns", 3, "Never.").end()
    assert (said.code, said.out) == (3, "")


def test_an_empty_command_is_told(piped):
    said = piped("run", "--until", " ", "Write.").end()
    assert said.code == 2
    assert "--until takes a command" in said.line


@pytest.mark.kernel
def test_the_time_is_a_limit(piped, scripted, block, record):
    model = scripted([block("import time\ntime.sleep(60)")])
    said = piped("run", *model, "--max-time", "500ms", "Sleep.").end()
    assert (said.code, said.out) == (3, "")
    assert "the time is up" in said.line
    assert record()["cells"]


@pytest.mark.kernel
def test_blocks_see_the_variables_that_are_named_and_no_others(piped, scripted, block, monkeypatch):
    monkeypatch.setenv("SEEN", "yes")
    monkeypatch.setenv("LLM_API_KEY", "a-secret")
    results = []

    def script(request):
        results.append(request.messages[-1]["content"])
        if len(results) > 1:
            return "Done."
        return block("import os\nprint(os.environ.get('SEEN'), os.environ.get('LLM_API_KEY'))")

    assert piped("run", *scripted(script), "--env", "SEEN", "Look.").end().code == 0
    assert "yes None" in results[1]


@pytest.mark.kernel
def test_the_record_goes_where_it_is_wanted_and_no_run_is_overwritten(piped, scripted, place):
    model = scripted(lambda request: "Yes.")
    assert piped("run", *model, "--run-dir", "here", "Go.").end().code == 0
    assert json.loads((place / "here" / "run.ipynb").read_text())["nbformat"] == 4
    assert not (place / ".codeact").exists()
    said = piped("run", *model, "--run-dir", "here", "Go.").end()
    assert said.code == 2
    assert "here holds a run already; give another --run-dir" in said.line


@pytest.mark.kernel
def test_a_record_that_cannot_be_written_is_said_and_the_answer_is_given(piped, scripted, place):
    folder = place / "full"
    folder.mkdir()
    (folder / "journal.jsonl").symlink_to("/dev/full")  # a link is not followed
    said = piped("run", *scripted(["Yes."]), "--run-dir", "full", "Go.").end()
    assert (said.code, said.out) == (0, "Yes.\n")
    assert "journal.jsonl cannot be written (journal.jsonl is a link or no file of ours" in said.line


@pytest.mark.kernel
def test_an_endpoint_that_cannot_be_reached_is_one_line(piped):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        said = piped("run", "--model", "m", "--base-url", url, "Go.").end()
    assert (said.code, said.out) == (1, "")
    assert f"cannot reach {url}" in said.line


@pytest.mark.kernel
def test_a_port_at_which_something_else_answers_is_one_line(piped):
    def greet():
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                client.sendall(b"220 mail.example ESMTP\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=greet, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        said = piped("run", "--model", "m", "--base-url", url, "Go.").end()
        server.shutdown(socket.SHUT_RDWR)
    assert (said.code, said.out) == (1, "")
    assert url in said.line


@pytest.mark.kernel
def test_an_unknown_model_and_a_wrong_key_are_one_line(piped, scripted, monkeypatch):
    model = scripted(["x"], models=["other"])
    said = piped("run", *model, "Go.").end()
    assert (said.code, said.out) == (1, "")
    assert "scripted" in said.line
    monkeypatch.setenv("LLM_API_KEY", "sk-wrong-key-of-mine")
    said = piped("run", *scripted(["x"], key="right"), "Go.").end()
    assert said.code == 1
    assert "401" in said.line
    assert "sk-wrong-key-of-mine" not in said.line


@pytest.mark.kernel
def test_with_events_a_failure_is_an_event_and_a_line(piped, scripted):
    said = piped("run", *scripted([]), "--json", "Go.").end()
    assert said.code == 1
    assert said.events[-1]["type"] == "RunEnded"
    assert said.events[-1]["stop"] == "failed"
    assert "the script has only 0 replies" in said.line


@pytest.mark.kernel
def test_a_kernel_that_does_not_start_is_one_line(piped, scripted, tmp_path, monkeypatch):
    spec = tmp_path / "jupyter" / "kernels" / "broken"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-c", "import sys; sys.exit('no licence')", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "b", "language": "cobol"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    said = piped("run", *scripted(["x"]), "--kernel", "broken", "Go.").end()
    assert (said.code, said.out) == (1, "")
    assert "no licence" in said.line
    said = piped("run", *scripted(["x"]), "--python", "/bin/false", "Go.").end()
    assert said.code == 2
    assert "/bin/false does not run as a Python interpreter" in said.line


@pytest.mark.kernel
def test_recorded_replies_are_replayed_with_no_endpoint(piped, place, block, scripted):
    model = scripted([block("print(6 * 7)"), ANSWER])
    assert piped("run", *model, "--run-dir", "first", "What is 6 times 7?").end().code == 0
    said = piped("run", "--model", "replay:first", "--run-dir", "second", "What is 6 times 7?").end()
    assert (said.code, said.out, said.err) == (0, ANSWER + "\n", "")
    said = piped(
        "run", "--model", "replay:first/run.ipynb", "--run-dir", "parted", "What is 6 times 8?"
    ).end()
    assert (said.code, said.out) == (1, "")
    assert 'turn 1 of first/run.ipynb: its model had read "What is 6 times 7?"' in said.err
    assert "    -What is 6 times 7?\n    +What is 6 times 8?\n" in said.err
    model = scripted(["It is 48."])
    said = piped("run", "--then", model[1], *model[2:], "--model", "replay:first", "What is 6 times 8?").end()
    assert (said.code, said.out) == (0, "It is 48.\n")
    said = piped("resume", "parted", *scripted(["It is 48, too."])).end()
    assert (said.code, said.out) == (0, "It is 48, too.\n")


@pytest.mark.kernel
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_with_nobody_to_ask_one_signal_stops_the_run_and_keeps_the_record(
    piped, scripted, block, record, number, code
):
    model = scripted([block('print("begun")\nimport time\ntime.sleep(600)')])
    command = piped("run", *model, "--json", "Sleep.")
    events = []
    while not events or events[-1]["type"] != "BlockOutput":
        events.append(json.loads(command.process.stdout.readline()))
    command.interrupt(number)
    said = command.end()
    assert said.code == code
    assert said.events[-1]["stop"] == "cancelled"
    assert said.line.startswith("codeact: it was stopped; the record is ")
    assert '"cancelled"' in json.dumps(record()["metadata"])


@pytest.mark.kernel
def test_a_tool_that_never_returns_does_not_hold_up_the_end(piped, scripted, block, place):
    (place / "stuck.py").write_text("import threading\ndef wait():\n    threading.Event().wait()\n")
    command = piped("run", *scripted([block("wait()")]), "--tools", "stuck.py", "--json", "Wait.")
    while json.loads(command.process.stdout.readline())["type"] != "ToolCalled":
        pass
    command.interrupt()
    assert command.end().code == 130


@pytest.mark.kernel
def test_a_reader_that_leaves_stops_the_run(piped, scripted, block):
    command = piped("run", *scripted([block("import time\ntime.sleep(600)")] * 9), "--json", "Sleep.")
    assert json.loads(command.process.stdout.readline())["type"] == "RunStarted"
    command.process.stdout.close()
    command.process.stdout = None
    assert command.process.wait(60) == 1
    assert command.process.stderr.read() == "codeact: stdout cannot be written: Broken pipe\n"


@pytest.mark.kernel
def test_an_answer_that_does_not_fit_on_the_disk_is_a_failure(piped, scripted):
    with open("/dev/full", "w") as full:
        command = piped("run", *scripted(["Yes."]), "Go.", stdout=full)
        said = command.end()
    assert said.code == 1
    assert said.err == "codeact: stdout cannot be written: No space left on device\n"


@pytest.mark.kernel
def test_a_reply_in_pieces_that_break_anywhere_is_one_answer(piped, scripted, block):
    replies = [EndpointReply(block("print('é')"), piece=1), EndpointReply(ANSWER, piece=1)]
    assert piped("run", *scripted(replies), "Go.").end().out == ANSWER + "\n"


def test_traces_go_where_the_variables_say_and_never_into_the_answer(place, scripted, piped, block):
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    env = os.environ | {"OTEL_TRACES_EXPORTER": "console"}
    said = piped("run", *scripted([block("x = 1"), "Done."]), "--otel", "Go.", env=env).end()
    assert (said.code, said.out) == (0, "Done.\n")
    for words in (
        '"invoke_agent codeact"',
        '"chat scripted"',
        '"execute_tool run_code"',
        '"service.name": "codeact"',
    ):
        assert words in said.err
    env["OTEL_TRACES_EXPORTER"] = "pigeon"
    said = piped("run", *scripted([]), "--otel", "Go.", env=env).end()
    assert said.code == 2
    assert "OTEL_TRACES_EXPORTER" in said.line

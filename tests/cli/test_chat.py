"""`codeact chat`: typed at a terminal, and from a pipe."""

from __future__ import annotations

import json
import subprocess

import pytest

from codeact_kernel.blocks import CodeBlock
from codeact_kernel.cli.chat import HELP, is_quit, obey
from codeact_kernel.supervisor import LiveBlock
from codeact_kernel.testing.replies import EndpointReply


class Agent:
    """Has two blocks, and writes down what it is told."""

    def __init__(self):
        self.told = []
        self.live = [
            LiveBlock("load", CodeBlock("x"), 1, "running", 0.0, 0.0, "main", None, "12/40"),
            LiveBlock("next", CodeBlock("x"), 1, "waiting", 0.0, None, None, None, ""),
        ]

    def cancel(self, name):
        self.told.append(f"cancel {name}")
        return name == "load"

    def stop(self):
        self.told.append("stop")


@pytest.mark.parametrize(
    ("line", "said", "told"),
    [
        ("/help", HELP, []),
        (" /help ", HELP, []),
        ("/cancel load", "Cancelling load.", ["cancel load"]),
        ("/cancel lead", "There is no running block 'lead'.", ["cancel lead"]),
        ("/cancel", "Say which block: /cancel ID (/blocks lists them).", []),
        ("/cancel a b", "Say which block: /cancel ID (/blocks lists them).", []),
        ("/stop", "", ["stop"]),
        ("/stop it", "There is no command /stop it; /help tells what there is.", []),
        ("/nonsense", "There is no command /nonsense; /help tells what there is.", []),
        ("/etc/passwd is what?", None, []),
        ("/", None, []),
        ("what is /help?", None, []),
        ("", None, []),
    ],
)
def test_a_line_with_a_slash_is_a_command_and_a_path_is_none(line, said, told):
    agent = Agent()
    assert (obey(line, agent), agent.told) == (said, told)


def test_blocks_are_listed_with_what_they_do():
    agent = Agent()
    first, second = obey("/blocks", agent).splitlines()
    assert first.startswith("load  ")
    assert first.endswith("  12/40")
    assert second == "next  waits"
    agent.live = []
    assert obey("/blocks", agent) == "No block is running."


def test_only_quit_quits():
    assert is_quit(" /quit ")
    assert not is_quit("/quit now")
    assert not is_quit("quit")


def echo(request):
    return f"You said: {request.messages[-1]['content']}"


@pytest.mark.kernel
def test_each_line_of_a_pipe_is_a_message_of_one_conversation_in_one_record(piped, scripted, block, record):
    def script(request):
        last = request.messages[-1]["content"]
        if last.startswith("set"):
            return block("x = 41", id="set")
        if last.startswith("get"):
            return block("print(x + 1)", id="get")
        return "It was 42." if "42" in last else "Done."

    lines = "set\n\n   \n/blocks\n/nonsense\nget\n"
    said = piped("chat", *scripted(script), stdin=subprocess.PIPE).end(lines)
    assert (said.code, said.out) == (0, "Done.\nIt was 42.\n")
    assert said.err == "No block is running.\nThere is no command /nonsense; /help tells what there is.\n"
    assert [cell["source"] for cell in record()["cells"] if cell["cell_type"] == "code"] == [
        ["x = 41"],
        ["print(x + 1)"],
    ]


@pytest.mark.kernel
def test_a_plain_file_can_be_the_conversation_and_quit_ends_it(piped, scripted, place):
    (place / "lines").write_text("one\ntwo\n/quit\nthree\n")
    with open("lines") as lines:
        said = piped("chat", *scripted(echo), stdin=lines).end()
    assert (said.code, said.out) == (0, "You said: one\nYou said: two\n")
    assert piped("chat", *scripted(echo)).end().out == ""


@pytest.mark.kernel
def test_a_pipe_is_answered_line_by_line_while_it_stays_open(piped, scripted):
    command = piped("chat", *scripted(echo), stdin=subprocess.PIPE)
    for word in ("one", "two"):
        command.process.stdin.write(f"{word}\n")
        command.process.stdin.flush()
        assert command.process.stdout.readline() == f"You said: {word}\n"
    command.interrupt()
    assert command.process.wait(60) == 130


@pytest.mark.kernel
def test_from_a_pipe_the_first_message_that_fails_ends_it(piped, scripted):
    said = piped("chat", *scripted(["Yes."]), stdin=subprocess.PIPE).end("one\ntwo\nthree\n")
    assert (said.code, said.out) == (1, "Yes.\n")
    assert "the script has only 1 replies" in said.line
    said = piped(
        "chat", *scripted(lambda _: "<run_code>\n1\n</run_code>"), "--max-turns", 1, stdin=subprocess.PIPE
    )
    assert said.end("one\ntwo\n").code == 3


@pytest.mark.kernel
def test_what_is_typed_is_a_message_and_while_it_works_a_note(terminal, scripted, block, record):
    sent = []

    def script(request):
        sent.append(request.messages[-1]["content"])
        if sent[-1] == "wait":
            return block("import time\nwhile not open('go').read():\n    time.sleep(0.05)", id="slow")
        return f"Heard {len(sent)}." if "note" in sent[-1] else f"Said {len(sent)}."

    open("go", "w").close()
    shell = terminal("chat", *scripted(script))
    shell.until("/help tells what else there is.")
    shell.type("hello é\r")
    shell.until("> hello é")
    shell.until("Said 1.")
    shell.until("record: .codeact/runs/")
    shell.type("\r  \rwait\r")
    shell.until("▸ slow")
    shell.type("skip page 7\r")
    shell.until("user: skip page 7")
    with open("go", "w") as go:
        go.write("go")
    shell.until("✓ slow")
    shell.until("Heard ")
    shell.type("/quit\r")
    assert shell.end() == 0
    assert sent[0] == "hello é"
    assert any('<note from="user">skip page 7</note>' in message for message in sent)
    notebook = json.dumps(record(), ensure_ascii=False)
    assert "hello é" in notebook
    assert "skip page 7" in notebook


@pytest.mark.kernel
def test_blocks_can_be_cancelled_and_runs_stopped_and_the_conversation_goes_on(terminal, scripted, block):
    def script(request):
        last = request.messages[-1]["content"]
        if last.startswith("sleep"):
            return block("import time\nprint('begun')\ntime.sleep(600)", id="slow")
        return "It was cancelled." if "cancelled" in last else "Still here."

    shell = terminal("chat", *scripted(script))
    shell.until("Type a message")
    shell.type("sleep\r")
    shell.until("begun")
    shell.type("/cancel nope\r")
    shell.until("There is no running block 'nope'.")
    shell.type("/cancel slow\r")
    shell.until("Cancelling slow.")
    shell.until("It was cancelled.")
    shell.type("sleep again\r")
    shell.until("slow#2")
    shell.until("begun")
    shell.type("/stop\r")
    shell.until("it was stopped")
    shell.type("hello\r")
    shell.until("Still here.")
    shell.type("\x04")
    assert shell.end() == 0


@pytest.mark.kernel
def test_an_interrupt_asks_on_the_line_where_one_types(terminal, scripted, block):
    def script(request):
        last = request.messages[-1]["content"]
        return (
            block("import time\nprint('begun')\ntime.sleep(600)", id="slow") if last == "sleep" else "Fine."
        )

    shell = terminal("chat", *scripted(script))
    shell.until("Type a message")
    shell.type("sleep\r")
    shell.until("begun")
    shell.interrupt()
    shell.until("Cancelled 1 block. Enter goes on")
    shell.type("be quick\r")
    shell.until("user: be quick")
    shell.until("Fine.")
    shell.type("sleep\r")
    shell.until("begun")
    shell.interrupt()
    shell.until("Enter goes on")
    shell.interrupt()
    shell.until("it was stopped")
    shell.until("turn")
    shell.interrupt()
    shell.until("Ctrl-C once more leaves")
    shell.interrupt()
    assert shell.end() == 130


@pytest.mark.kernel
def test_leaving_while_it_works_stops_the_run(terminal, scripted, block, record):
    shell = terminal("chat", *scripted([block("import time\nprint('begun')\ntime.sleep(600)")]))
    shell.until("Type a message")
    shell.type("sleep\r")
    shell.until("begun")
    shell.type("/quit\r")
    assert shell.end() == 0
    assert '"cancelled"' in json.dumps(record()["metadata"])


@pytest.mark.kernel
def test_a_failure_is_said_and_the_conversation_goes_on(terminal, scripted):
    replies = iter([EndpointReply(status=400, error={"message": "no\nsuch \x1b[2Jthing"}), "Better."])
    shell = terminal("chat", *scripted(lambda _: next(replies)), width=200)
    shell.until("Type a message")
    shell.type("one\r")
    shell.until("such thing")
    shell.type("two\r")
    shell.until("Better.")
    shell.type("\x04")
    assert shell.end() == 0
    assert b"\x1b[2J" not in shell.raw


@pytest.mark.kernel
def test_in_a_chat_the_model_can_ask_too(terminal, scripted, block):
    shell = terminal(
        "chat", *scripted([block("print('Hello', await ask_person('Your ' + 'name?'))"), "Done."])
    )
    shell.until("Type a message")
    shell.type("go\r")
    shell.until("Your name?")
    shell.type("Ada\r")
    shell.until("Hello Ada")
    shell.until("Done.")
    shell.type("\x04")
    assert shell.end() == 0


@pytest.mark.kernel
def test_what_tools_print_is_shown_above_the_line_where_one_types(terminal, scripted, block, place):
    (place / "noisy.py").write_text(
        "import sys\ndef shout(text):\n    print('I', end=' ')\n    print('shout\\x1b[2J')\n"
        "    print('loudly', file=sys.stderr)\n    return text.upper()\n"
    )
    shell = terminal("chat", "--tools", "noisy.py", *scripted([block("print(shout('hi'))"), "Done."]))
    shell.until("Type a message")
    shell.type("go\r")
    shell.until("I shout")
    shell.until("loudly")
    shell.until("Done.")
    shell.type("\x04")
    assert shell.end() == 0
    assert b"\x1b[2J" not in shell.raw

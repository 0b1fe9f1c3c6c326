"""`codeact run` as a person at a terminal sees it, keys and all."""

from __future__ import annotations

import json
import re

import pytest

from codeact_kernel.testing.replies import EndpointReply

pytestmark = pytest.mark.kernel

SLEEP = "import time\nprint('begun')\ntime.sleep(600)"
QUESTION = "Enter goes on"


def sleeper(block, sent):
    """A model that sleeps once, and then answers with the last thing that it was told."""

    def script(request):
        sent.append(request.messages[-1]["content"])
        return block(SLEEP, id="slow") if len(sent) == 1 else f"I heard {len(sent)}."

    return script


@pytest.mark.parametrize(("width", "height"), [(60, 12), (200, 50)])
def test_a_run_is_shown_while_it_goes_on_and_the_answer_last(terminal, scripted, block, width, height):
    code = "import time\nfor i in range(20):\n    print('step', i)\n    time.sleep(0.05)\n" + "x = 1\n" * 20
    reply = EndpointReply(f"First I look.\n{block(code, id='load')}", delay=0.01, wait=0.6)
    shell = terminal("run", *scripted([reply, "It is **42**."]), "What is it?", width=width, height=height)
    for words in (
        "scripted · Python 3.",
        "the model thinks",
        "First I look.",
        "▸ load",
        "for i in range(20):",
        "more lines",
        "load  ",
        "step ",
        "✓ load  ",  # a busy machine hears of its start late
        "step 19",
        "It is **42**.",
        "2 turns · ",
        "cost unknown",
        "record: .codeact/runs/",
    ):
        shell.until(words)
    assert shell.end() == 0
    assert shell.raw.count(b"It is **42**.") == 1
    assert shell.raw.rindex(b"\x1b[?25h") > shell.raw.rindex(b"\x1b[?25l"), "the cursor stays hidden"


def test_nothing_that_blocks_or_models_write_reaches_the_terminal_as_control(terminal, scripted, block):
    evil = r"\x1b]0;owned\x07\x1b[2J\x1b[5mblink\x9b2J\x1bc"
    raw = "\x1b]0;owned\x07\x1b[2J\x1b[5mblink\x1bc"
    code = f"# {raw}\nprint('{evil}')\nraise ValueError('{evil}')"
    replies = [EndpointReply(f"{raw}prose\n{block(code, id='a')}", delay=0.005), f"{raw}answer"]
    shell = terminal("run", *scripted(replies), "Go.")
    assert shell.end() == 0
    for forbidden in (b"\x1b]", b"\x1b[2J", b"\x1b[5m", b"\x9b2J\x1b", b"\x1bc"):
        assert forbidden not in shell.raw
    for words in ("prose", "blink", "ValueError", "blinkanswer"):
        assert words in shell.text


def test_one_interrupt_cancels_the_blocks_holds_the_run_and_goes_on_with_enter(terminal, scripted, block):
    sent = []
    shell = terminal("run", *scripted(sleeper(block, sent)), "Sleep.")
    shell.until("begun")
    shell.interrupt()
    shell.until("Cancelled 1 block. " + QUESTION)
    assert len(sent) == 1
    shell.type("\n")
    shell.until("✗ slow  cancelled")
    shell.until("I heard 2.")
    assert shell.end() == 0
    assert 'status="cancelled"' in sent[1]
    assert "by the user" in sent[1]


def test_a_note_is_read_together_with_what_came_of_the_blocks(terminal, scripted, block, record):
    sent = []
    shell = terminal("run", *scripted(sleeper(block, sent)), "Sleep.")
    shell.until("begun")
    shell.interrupt()
    shell.until(QUESTION)
    shell.type("skip page 7\n")
    shell.until("user: skip page 7")
    shell.until("I heard 2.")
    assert shell.end() == 0
    assert 'status="cancelled"' in sent[1]
    assert '<note from="user">skip page 7</note>' in sent[1]
    assert "skip page 7" in json.dumps(record())


@pytest.mark.parametrize("keys", ["\x03", "s\n", "\x04"], ids=["Ctrl-C", "s", "Ctrl-D"])
def test_a_second_interrupt_or_s_stops_and_the_record_is_kept(terminal, scripted, block, record, keys):
    sent = []
    shell = terminal("run", *scripted(sleeper(block, sent)), "Sleep.")
    shell.until("begun")
    shell.interrupt()
    shell.until(QUESTION)
    shell.type(keys)
    shell.until("it was stopped")
    shell.signal()  # while it ends: this must break nothing off
    assert shell.end() == 130
    assert "record: .codeact/runs/" in shell.text
    assert "Traceback" not in shell.text
    assert len(sent) == 1
    assert '"cancelled"' in json.dumps(record()["metadata"])


def test_what_the_model_writes_while_the_user_thinks_is_shown_after_the_answer(terminal, scripted, block):
    rest = EndpointReply(f"Let me think about it.\n{block('print(40 + 2)', id='late')}", delay=0.05)
    shell = terminal("run", *scripted([rest, "Done."]), "Go.")
    shell.until("about it.")
    shell.interrupt()
    shell.until("No block is running. " + QUESTION)
    shell.type("\n")
    shell.until("▸ late")
    shell.until("✓ late")
    assert shell.end() == 0
    question = shell.text.index(QUESTION)
    assert "late" not in shell.text[question : shell.text.index("\n", question)]


def test_an_answer_that_comes_while_the_user_thinks_ends_the_run(terminal, scripted):
    shell = terminal(
        "run", *scripted([EndpointReply("Let me think about it, and say yes.", delay=0.2)]), "Go."
    )
    shell.until("Let me think")
    shell.interrupt()
    shell.until(QUESTION)
    shell.until("Let me think about it, and say yes.")
    assert shell.end() == 0


def test_before_the_kernel_has_started_an_interrupt_ends_it_at_once(terminal, scripted):
    shell = terminal("run", *scripted([]), "Go.")
    shell.until("starting a kernel")
    shell.interrupt()
    assert shell.end() == 130
    assert "Traceback" not in shell.text


def test_the_model_can_ask_the_person(terminal, scripted, block):
    code = "name = await ask_person('What is \\x1b[2Jyour name?')\nprint('Hello', name)"
    shell = terminal("run", *scripted([block(code), "Done."]), "Ask.")
    shell.until("starting a kernel")
    shell.type("too early to be an answer\n")
    shell.until("What is ⟨U+001B⟩[2Jyour name?")
    shell.type("Ada\n")
    shell.until("Hello Ada")
    assert shell.end() == 0


def test_an_interrupt_takes_back_what_the_model_asks(terminal, scripted, block):
    code = "import asyncio\nawait asyncio.gather(ask_person('First?'), ask_person('Second?'))"
    shell = terminal("run", *scripted([block(code), "Done."]), "Ask.")
    shell.until("First?")
    shell.interrupt()
    shell.until(QUESTION)
    shell.type("\n")
    shell.until("Done.")
    assert shell.end() == 0
    assert "Second?" not in re.sub(r"ask_person\('Second\?'\)", "", shell.text)


def test_without_colours_where_the_user_wants_none(terminal, scripted, block, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    shell = terminal("run", *scripted([block("print(1)"), "Done."]), "Go.")
    assert shell.end() == 0
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]", shell.raw)


def test_events_at_a_terminal_are_lines_and_nothing_moves(terminal, scripted, block):
    shell = terminal("run", *scripted([block("print(1)"), "Done."]), "--json", "Go.", width=200)
    assert shell.end() == 0
    assert b"\x1b" not in shell.raw
    assert [json.loads(line)["type"] for line in shell.text.splitlines()][-1] == "RunEnded"


def test_with_stdout_in_a_file_the_progress_is_seen_and_the_answer_is_in_the_file(
    terminal, scripted, block, place
):
    with open("answer", "w") as file:
        shell = terminal("run", *scripted([block("print(1)", id="a"), "Done."]), "Go.", stdout=file.fileno())
        shell.until("✓ a")
        assert shell.end() == 0
    assert (place / "answer").read_text() == "Done.\n"

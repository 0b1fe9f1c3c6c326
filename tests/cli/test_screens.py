"""Questions to a person, and what is left on a terminal when a run is over."""

from __future__ import annotations

import asyncio
import re

import pytest
from paper import Paper

from codeact_kernel.cli.screens import Screen, TerminalScreen
from codeact_kernel.errors import ToolError
from codeact_kernel.testing.replies import EndpointReply


async def test_without_a_terminal_nobody_answers():
    assert await Screen().decide("Now?") is None
    with pytest.raises(ToolError, match="the person did not answer"):
        await Screen().person("Who?")


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_question_is_open_at_a_time():
    screen = TerminalScreen()
    first = asyncio.create_task(screen.person("First?"))
    second = asyncio.create_task(screen.person("Second?"))
    await settle()
    screen.answer("one")
    await settle()
    screen.answer("two")
    assert await asyncio.gather(first, second) == ["one", "two"]
    assert screen.question is None
    screen.answer("nobody asked")


async def test_a_decision_takes_back_what_the_model_asks_and_lets_it_ask_nothing_meanwhile():
    screen = TerminalScreen()
    open_, waiting = (asyncio.create_task(screen.person(question)) for question in ("First?", "Second?"))
    await settle()
    decision = asyncio.create_task(screen.decide("What now?"))
    await settle()
    for question in (open_, waiting, asyncio.create_task(screen.person("Third?"))):
        with pytest.raises(ToolError):
            await question
    screen.answer("go on")
    assert await decision == "go on"
    later = asyncio.create_task(screen.person("Later?"))
    await settle()
    screen.answer("yes")
    assert await later == "yes"


async def test_a_question_that_is_given_up_makes_place_for_the_next():
    screen = TerminalScreen()
    question = asyncio.create_task(screen.person("First?"))
    await settle()
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
    decision = asyncio.create_task(screen.decide("What now?"))
    await settle()
    screen.answer(None)
    assert await decision is None


@pytest.mark.kernel
@pytest.mark.parametrize("width", [60, 200])
def test_what_is_left_of_a_run_is_the_run_and_nothing_of_what_moved(terminal, scripted, block, width):
    code = "import time\nfor i in range(12):\n    print('step', i, '.' * 70)\n    time.sleep(0.05)"
    long = "Words and more words. " * 12
    replies = [
        EndpointReply(f"{long}\n{block(code, id='load')}\n{block('6 * 7', id='side')}", delay=0.01),
        EndpointReply("I wait.", delay=0.05),
        EndpointReply("It is\n42, 日本.", delay=0.05),
        EndpointReply("It is\n42, 日本.", delay=0.05),
    ]
    shell = terminal("run", *scripted(replies), "Go.", width=width, height=30)
    assert shell.end() == 0
    lines = Paper(width).write(shell.raw.decode()).lines
    text = "\n".join(lines)
    assert not set("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏") & set(text)
    assert "thinks" not in text
    assert " ".join(lines).count("Words and more words.") == 12
    for line in ("▸ load", "▸ side", "✓ side", "  import time", "✓ load", "It is", "42, 日本."):
        assert sum(shown.startswith(line) for shown in lines) == 1, text
    assert sum("step" in shown for shown in lines) == 7
    start = lines.index("It is")
    assert lines[start + 1] == "42, 日本."
    assert lines[start + 2].startswith(("2 turns", "3 turns"))


@pytest.mark.kernel
def test_what_is_left_of_a_chat_is_the_talk_with_what_was_typed(terminal, scripted, block, place):
    (place / "noisy.py").write_text("def shout():\n    print('I shout')\n    return 'HI'\n")
    code = "import time\nprint(shout())\nwhile not open('go').read():\n    time.sleep(0.05)"
    (place / "go").touch()
    shell = terminal("chat", "--tools", "noisy.py", *scripted([block(code, id="a"), "Done, é."]))
    shell.until("Type a message")
    shell.type("go\r")
    shell.until("▸ a")
    shell.type("half a li")
    shell.until("I shout")
    (place / "go").write_text("go")
    shell.until("✓ a")
    shell.until("Done, é.")
    shell.until("record: ")
    shell.type("ne\x15/quit\r")
    assert shell.end() == 0
    lines = [line for line in Paper(80).write(shell.raw.decode()).lines if line]
    expected = [
        r"Type a message; /help tells what else there is\.",
        r"> go",
        r"scripted · Python .*",
        r"sandbox: .*",
        r"▸ a",
        r"  import time",
        r"  print\(shout\(\)\)",
        r"  while not open\('go'\)\.read\(\):",
        r"      time\.sleep\(0\.05\)",
        r"I shout",
        r"✓ a  .*, 1 tool call  HI",
        r"Done, é\.",
        r"2 turns · .*",
        r"record: \.codeact/runs/.*",
    ]
    assert len(lines) == len(expected), "\n".join(lines)
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line), "\n".join(lines)

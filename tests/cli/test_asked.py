"""What a person is asked to approve, and what they say."""

from __future__ import annotations

import asyncio
import sys

import pytest
from rich.console import Console

from codeact_kernel.approval import Answer, Request
from codeact_kernel.blocks import AgentBlock, CodeBlock
from codeact_kernel.cli import asked
from codeact_kernel.cli.interrupts import Interrupts
from codeact_kernel.cli.loop import Signals
from codeact_kernel.cli.screens import Screen, TerminalScreen


def block_of(code, **more):
    block = CodeBlock(code)
    return Request("block", "the agent", "b1", "run_code", "why", block, always="all blocks", **more)


def call_of(name="send", preview="", agent="the agent", **arguments):
    return Request(
        "call", agent, "b1", name, "why", classes=("write",), arguments=arguments, preview=preview, always="x"
    )


def drawn(*what, width=60):
    console = Console(width=width, force_terminal=False, highlight=False, markup=False)
    with console.capture() as capture:
        for one in what:
            console.print(one)
    return capture.get()


def shown(request, **options):
    return drawn(*asked.told_request(request, **options))


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", Answer(True)),
        (" YES ", Answer(True)),
        ("n", Answer(False)),
        ("no, not that", None),
        ("n not that", Answer(False, "not that")),
        ("no not that", Answer(False, "not that")),
        ("a", Answer(True, always=True)),
        ("always", Answer(True, always=True)),
        (None, Answer(False)),
        ("", None),
        ("yes please", None),
        ("yy", None),
        ("a b", None),
        ("e", None),
    ],
)
def test_only_what_is_an_answer_is_one(line, answer):
    assert asked.read_line(line, call_of()).answer == answer


def test_always_is_no_answer_where_nothing_could_be_meant():
    request = Request("call", "the agent", "b1", "x", "why")
    assert asked.read_line("a", request).answer is None
    assert "always" not in drawn(asked.told_keys(request))
    assert "always: x, for the rest of this run" in drawn(asked.told_keys(call_of()))


def test_a_block_is_shown_with_all_its_code_and_whose_it_is():
    text = shown(block_of("import os\n\nos.remove('x')"))
    assert "? block b1 wants to run (run_code)" in text
    assert "  import os\n\n  os.remove('x')" in "\n".join(line.rstrip() for line in text.split("\n"))
    assert "scout: block b1 wants to call send (write)" in shown(call_of(agent="scout"))


def test_a_long_code_says_how_many_lines_are_hidden_and_shows_them():
    request = block_of("\n".join(f"line{n} = {n}" for n in range(500)))
    text = shown(request)
    assert "… 440 more lines here, not shown: v shows them" in text
    assert "line44 = 44" in text
    assert "line45 = 45" not in text
    assert "line484 =" not in text
    assert "line485 = 485" in text
    assert "line499 = 499" in text
    whole = shown(request, whole=True)
    assert all(f"line{n} = {n}" in whole for n in range(500))


def test_a_line_without_end_is_counted_and_can_be_seen():
    request = block_of("x = '" + "a" * 1_000_000 + "evil'")
    text = shown(request).replace("\n", "").replace(" ", "")
    assert "evil" not in text
    assert "…996,010morecharactershere,notshown:vshowsthem" in text
    assert "evil" in shown(request, whole=True).replace("\n", "").replace(" ", "")
    assert "morecharactershere" in shown(call_of(to="a" * 5000)).replace("\n", "").replace(" ", "")


def test_a_long_line_is_folded_and_not_cut():
    text = shown(block_of("x = 1" + " " * 500 + "; evil()"))
    assert "evil()" in text.replace("\n", "").replace(" ", "")
    text = shown(call_of(text="a" * 500 + "evil"))
    assert "evil" in text.replace("\n", "").replace(" ", "")


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[2J",
        "\x1b]0;x\x07",
        "\x9b2J",
        "\r",
        "\b",
        "\u202e",
        "\u2066",
        "\u200b",
        "\ufeff",
        "\u00ad",
        "\u2028",
    ],
)
def test_nothing_hides_and_nothing_reaches_the_terminal_as_control(hostile):
    mark = f"U+{ord(hostile[0]):04X}"
    for request in (
        block_of(f"a {hostile} b"),
        call_of(text=f"a {hostile} b"),
        call_of(**{f"a{hostile}b": 1}),
        call_of(preview=f"+ a {hostile} b"),
        call_of(name=f"a{hostile}b"),
        call_of(agent=f"a{hostile}b"),
        Request("block", "the agent", "b1", "run_agent", "why", AgentBlock(f"a {hostile} b")),
        Request("call", "the agent", f"b{hostile}", "x", f"why {hostile}", always=f"x {hostile}"),
    ):
        text = drawn(*asked.told_request(request, whole=True), asked.told_keys(request), width=300)
        assert hostile not in text
        assert mark in text


def test_an_edit_is_shown_as_a_diff_and_its_long_texts_only_once():
    request = call_of("edit_file", preview="-old\n+new", path="a.py", old="x" * 900, new="short")
    text = shown(request)
    assert "path = a.py" in text
    assert "-old\n" in text
    assert "old = 900 characters, which the diff shows" in text
    assert "new = short" in text
    assert "x" * 50 in shown(request, whole=True)


def test_arguments_that_are_no_texts_are_shown_as_json_or_as_what_they_are():
    text = shown(call_of(n=3, items=["a"], thing=object))
    assert "n = 3" in text
    assert '"a"' in text
    assert "class 'object'" in text


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def said(screen, *lines):
    for line in lines:
        await settle()
        screen.answer(line)
    await settle()


async def test_who_says_something_else_is_asked_again():
    screen = TerminalScreen()
    question = asyncio.create_task(screen.approve(block_of("x")))
    await said(screen, "what?", "v", "", "n because")
    assert await question == Answer(False, "because")


async def test_questions_and_approvals_are_asked_one_after_the_other():
    screen = TerminalScreen()
    tasks = [
        asyncio.create_task(screen.approve(block_of("x"))),
        asyncio.create_task(screen.person("Who?")),
        asyncio.create_task(screen.approve(call_of())),
    ]
    await said(screen, "y", "me", "a")
    assert await asyncio.gather(*tasks) == [Answer(True), "me", Answer(True, always=True)]


async def test_ctrl_c_while_asked_is_a_no_and_the_run_goes_on():
    class Agent:
        stopped = False

        def stop(self):
            self.stopped = True

    screen, signals, agent = TerminalScreen(), Signals(lambda: None), Agent()
    screen.can_ask = True
    async with Interrupts(agent, signals, screen):
        question = asyncio.create_task(screen.approve(block_of("x")))
        await settle()
        signals.on_interrupt()
        assert await question == Answer(False)
        assert not agent.stopped
        signals.on_interrupt()
        assert agent.stopped
    assert not screen.refuse()


async def test_while_the_person_decides_about_the_run_nothing_is_approved():
    screen = TerminalScreen()
    open_ = asyncio.create_task(screen.approve(block_of("x")))
    await settle()
    decision = asyncio.create_task(screen.decide("What now?"))
    await settle()
    assert await open_ == Answer(False)
    screen.answer("go on")
    assert await decision == "go on"


async def test_a_question_that_is_taken_back_makes_place():
    screen = TerminalScreen()
    question = asyncio.create_task(screen.approve(block_of("x")))
    await settle()
    question.cancel()
    await asyncio.wait([question])
    assert not screen.refuse()
    later = asyncio.create_task(screen.approve(block_of("y")))
    await said(screen, "y")
    assert await later == Answer(True)


async def test_without_a_terminal_nothing_is_approved():
    assert await Screen().approve(block_of("x")) == Answer(False, "nobody is here to be asked")


@pytest.fixture
def editor(tmp_path, monkeypatch):
    def script(code):
        path = tmp_path / "editor.py"
        path.write_text(
            f"import sys, pathlib\npath = pathlib.Path(sys.argv[1])\ntext = path.read_text()\n{code}\n"
        )
        monkeypatch.setenv("VISUAL", f"{sys.executable} {path}")

    return script


async def edited(request, *lines):
    screen = TerminalScreen()
    question = asyncio.create_task(screen.approve(request))
    for line in lines:
        async with asyncio.timeout(20):
            while screen.question is None or screen.question.done():
                await asyncio.sleep(0.01)
        screen.answer(line)
    return await question


async def test_what_is_edited_is_asked_about_again_and_then_is_what_runs(editor):
    editor("path.write_text(text.replace('1', '2') + '\\n')")
    assert await edited(block_of("x = 1"), "e", "y") == Answer(True, code="x = 2")
    assert await edited(block_of("x = 1"), "e", "n") == Answer(False)
    assert await edited(call_of(to="1"), "e", "y") == Answer(True, arguments={"to": "2"})


async def test_an_editor_that_fails_changes_nothing(editor):
    editor("path.write_text('evil'); sys.exit(3)")
    assert await edited(block_of("x = 1"), "e", "y") == Answer(True)
    editor("path.write_text('no json')")
    assert await edited(call_of(to="1"), "e", "y") == Answer(True)
    editor("pass")
    assert await edited(block_of("x = 1"), "e", "y") == Answer(True)

"""Approvals at a real terminal, keys and all."""

from __future__ import annotations

import sys

import pytest

pytestmark = pytest.mark.kernel

TOOLS = '''
from codeact_kernel.tools import tool

@tool(kind="write")
def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"
'''


def asks(shell, *words, mark="> "):
    """Wait until something is asked, and an answer can be typed: what comes earlier is not taken for one."""
    for word in (*words, "for the rest of this run", mark):
        shell.until(word)


@pytest.fixture
def sender(place):
    (place / "sender.py").write_text(TOOLS)
    return ("--approve", "ask", "--tools", "sender.py")


def test_a_run_asks_and_does_what_is_typed(terminal, scripted, block, sender):
    code = "print(send('a'))\nprint(send.try_('b').error)\nprint(send.try_('c').ok)"
    shell = terminal("run", *sender, *scripted([block(code, id="one"), "Done."]), "Go.", width=150)
    asks(shell, "? block one wants to run (run_code)", "print(send('a'))", "always: every run_code block")
    shell.type("hm\n")
    shell.until("y runs it")
    shell.until("> ")
    shell.type("y\n")
    asks(shell, "? block one wants to call send (write)", "to = a")
    shell.type("y\n")
    asks(shell, "to = b")
    shell.type("n not to b\n")
    asks(shell, "to = c")
    shell.type("\x04")
    shell.until("✓ one")
    shell.until("sent to a")
    shell.until("because the person said no: not to b.")
    shell.until("False")
    shell.until("Done.")
    assert shell.end() == 0


def test_ctrl_c_is_a_no_to_what_is_asked_and_the_run_goes_on(terminal, scripted, block, sender):
    shell = terminal("run", *sender, *scripted([block("print(1)", id="one"), "Done."]), "Go.")
    asks(shell, "? block one wants to run")
    shell.interrupt()
    shell.until("✗ one  rejected")
    shell.until("Done.")
    assert shell.end() == 0


def test_always_is_asked_once_and_no_more(terminal, scripted, block, sender):
    replies = [block("print(1)", id="one"), block("print(2)", id="two"), "Done."]
    shell = terminal("run", *sender, *scripted(replies), "Go.")
    asks(shell, "? block one wants to run")
    shell.type("a\n")
    shell.until("✓ two")
    shell.until("Done.")
    assert shell.end() == 0
    assert shell.text.count("wants to run") == 1


def test_several_that_wait_are_asked_one_after_the_other_while_others_run(
    terminal, scripted, block, sender, place
):
    (place / "codeact.toml").write_text(
        "[rules]\nallow = [{tool = 'run_code', arguments = {code = 'print*'}}]"
    )
    reply = "\n".join(
        [block("x = 1", id="one"), block("y = 2", id="two"), block("print('free')", id="three")]
    )
    options = (*sender, "--trust-workspace", *scripted([reply, "I wait.", "I wait.", "Done.", "Done."]))
    shell = terminal("run", *options, "Go.")
    asks(shell, "? block one wants to run")
    shell.type("y\n")
    asks(shell, "? block two wants to run")
    shell.type("y\n")
    shell.until("✓ two")
    assert shell.end() == 0
    assert "? block three" not in shell.text


def test_a_block_is_edited_in_the_editor_of_the_user(terminal, scripted, block, sender, place, monkeypatch):
    (place / "edit.py").write_text(
        "import sys, pathlib\np = pathlib.Path(sys.argv[1])\np.write_text(p.read_text().replace('written', 'edited'))\n"
    )
    monkeypatch.setenv("VISUAL", f"{sys.executable} edit.py")
    shell = terminal("run", *sender, *scripted([block("print('written')", id="one"), "Done."]), "Go.")
    asks(shell, "? block one", "print('written')")
    shell.type("e\n")
    asks(shell, "? block one", "print('edited')")
    shell.type("y\n")
    shell.until("✓ one")
    shell.until("Done.")
    assert shell.end() == 0


def test_a_chat_asks_above_its_line_and_goes_on(terminal, scripted, block, sender):
    shell = terminal(
        "chat", *sender, *scripted([block("print(send('a'))", id="one"), "Done.", "Again."]), width=150
    )
    shell.until("Type a message")
    shell.type("go\r")
    asks(shell, "? block one wants to run", mark="answer>")
    shell.type("y\r")
    asks(shell, "to = a", mark="answer>")
    shell.type("\x03")
    shell.until("✗ one")
    shell.until("Done.")
    shell.type("more\r")
    shell.until("Again.")
    shell.type("/quit\r")
    assert shell.end() == 0


def test_hostile_code_neither_hides_nor_reaches_the_terminal_as_control(terminal, scripted, block, sender):
    raw = "\x1b]0;owned\x07\x1b[2J\x1b[8mhidden\x1b[0m\u202e\u200b"
    shell = terminal("run", *sender, *scripted([block(f"x = '{raw}'", id="one"), "Done."]), "Go.", width=200)
    asks(shell, "? block one wants to run", "⟨U+001B⟩[8mhidden⟨U+001B⟩[0m⟨U+202E⟩⟨U+200B⟩")
    shell.type("n\n")
    shell.until("Done.")
    assert shell.end() == 0
    for forbidden in (b"\x1b]", b"\x1b[2J", b"\x1b[8m", "\u202e".encode()):
        assert forbidden not in shell.raw


def test_without_a_terminal_what_would_be_asked_is_denied(piped, scripted, block, sender):
    said = piped("run", *sender, *scripted([block("print(1)", id="one"), "Done."]), "Go.").end()
    assert (said.code, said.out) == (0, "Done.\n")


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 2), ("", 2)])
def test_who_is_asked_to_trust_a_workspace_sees_what_it_wants(
    terminal, scripted, place, typed, code, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (place / "sender.py").write_text(TOOLS)
    (place / "codeact.toml").write_text('tools = ["sender.py"]\nenv = ["HOME"]')
    shell = terminal("run", *scripted(["Done."]), "Go.", width=200)
    shell.until('tools = ["sender.py"]')
    shell.until("Do you trust this folder?")
    shell.type(f"{typed}\n")
    if code == 0:
        shell.until("Done.")
    else:
        shell.until("which counts only where you trust the workspace")
    assert shell.end() == code
    if code == 0:
        again = terminal("run", *scripted(["Done."]), "Go.", width=200)
        again.until("Done.")
        assert again.end() == 0
        assert "Do you trust" not in again.text

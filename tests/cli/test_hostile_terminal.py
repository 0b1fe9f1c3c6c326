"""Texts that mean to command a terminal, on every way to one: the bytes that reach it hold only what the screen itself
draws with."""

from __future__ import annotations

import re

import pytest
from hostile_texts import TEXTS

from codeact_kernel.testing.replies import EndpointReply, failing

pytestmark = pytest.mark.kernel

EVIL = (
    "\x1b]0;owned\x07\x1b]8;;http://owned\x1b\\link\x1b]8;;\x1b\\\x1b]52;c;b3duZWQ=\x07\x1b[7777A\x1b[7777;7777H\x1b[2J"
    "\x1b[38;5;177;4;5;8m\x1b[?1049h\x1b[?7777h\x1bc\x1b(0\x1bP7777q\x1b\\\x1b_7777\x1b\\\x9b7777A\x9d0;owned\x9c\x90q\x9c"
    "\x07\x08\x08\x7f\x0e\x0f\x05\x18\x1a\u202eevil\u2066\u200f"
)
OWN = re.compile(rb"\x1b(?:\[[0-9;?]{0,12}[A-DGHJKhlm]|[=>])")
"""What rich and prompt_toolkit draw with."""
TOOLS = f"""
from codeact_kernel.errors import ToolError
from codeact_kernel.tools import notify
EVIL = {EVIL!r}
def fetch(url: str) -> str:
    \"\"\"Fetch a page.\"\"\"
    print("printed by a tool", EVIL)
    notify("noted " + EVIL)
    return EVIL
def fail() -> None:
    \"\"\"Fail.\"\"\"
    raise ToolError("failed " + EVIL)
def crash() -> None:
    \"\"\"Crash.\"\"\"
    raise RuntimeError("crashed " + EVIL)
"""
CODE = f"""
# a comment {EVIL}
EVIL = {EVIL!r}
print("printed", EVIL)
print(fetch("x"))
open("name" + EVIL.replace("/", "") [:60], "w").close()
import sys, os
print(os.listdir("."), file=sys.stderr)
os.system("printf '%s' '" + EVIL.replace("'", "") + "'")
for call in (fail, crash):
    try:
        call()
    except Exception as error:
        print("caught", error)
"""
MORE = f"""
for text in {[text for text in TEXTS.values() if len(text) < 3000]!r}:
    print(text.encode("utf-8", "replace").decode())
print("last {EVIL}")
raise ValueError("raised {EVIL}")
"""


def check(raw):
    """Nothing in it commands a terminal but what the screen itself has made."""
    drawn = set(OWN.findall(raw))
    assert not [
        sequence for sequence in drawn if b"7777" in sequence or b"177" in sequence or b"1049" in sequence
    ]
    rest = OWN.sub(b"", raw)
    for control in (b"\x1b", b"\x07", b"\x7f", b"\x0e", b"\x0f", b"\x05", b"\x18", b"\x1a"):
        assert control not in rest, rest[max(0, rest.index(control) - 80) : rest.index(control) + 40]
    text = rest.decode("utf-8", "replace")
    assert not re.search("[\x80-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]", text)


@pytest.fixture
def replies(block):
    """What a model says: prose, two blocks, an answer."""
    return [
        EndpointReply(f"{EVIL}prose\n{block(CODE, id='a')}", delay=0.002),
        EndpointReply(f"More {EVIL}\n{block(MORE, id='b')}"),
        f"the answer {EVIL}end",
    ]


def test_of_a_run_nothing_but_text_reaches_the_terminal(terminal, scripted, replies, place):
    (place / "tools.py").write_text(TOOLS)
    folder = "record\x1b[7777A\x07\u202e"
    shell = terminal(
        "run", *scripted(replies), "--tools", "tools.py", "--run-dir", folder, f"Task {EVIL} go", width=200
    )
    shell.until("the answer")
    assert shell.end() == 0
    check(shell.raw)
    for words in ("printed by a tool", "prose", "last ", "ValueError: raised", "record"):
        assert words in shell.text, words
    # Of the code that runs nothing is hidden.
    assert "# a comment ⟨U+001B⟩]0;owned⟨U+0007⟩" in shell.text


def test_of_a_chat_nothing_but_text_reaches_the_terminal(terminal, scripted, replies, place):
    (place / "tools.py").write_text(TOOLS)
    shell = terminal("chat", *scripted(replies), "--tools", "tools.py", width=200)
    shell.until("/help tells what else there is.")
    shell.type("Go on\r")
    shell.until("> Go on")
    shell.until("the answer")
    shell.type("\x04")
    assert shell.end() == 0
    check(shell.raw.replace(b"\x08", b""))
    for words in ("printed by a tool", "prose", "ValueError: raised"):
        assert words in shell.text, words


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--model", f"no\x1b[7777A{EVIL}", "x"),
        ("run", "--workspace", f"none{EVIL}", "x"),
        ("run", f"--{EVIL}", "x"),
        (f"ru{EVIL}n",),
        ("run", "--tools", f"no.{EVIL}", "x"),
        ("run", "--model", "replay:no\x1b[7777A\x07", "x"),
    ],
)
def test_what_is_wrong_is_said_as_text(terminal, arguments):
    shell = terminal(*(argument.replace("\x00", "") for argument in arguments))
    assert shell.end() in (1, 2)
    check(shell.raw)
    assert "codeact: " in shell.text


def test_what_an_endpoint_says_of_an_error_is_text(terminal, scripted):
    shell = terminal("run", *scripted([failing(400, f"no {EVIL}")]), "x")
    assert shell.end() == 1
    check(shell.raw)
    assert "no " in shell.text


def test_events_as_json_are_data(piped, scripted, replies, place):
    (place / "tools.py").write_text(TOOLS)
    said = piped("run", *scripted(replies), "--tools", "tools.py", "--json", f"Task {EVIL}").end()
    assert said.code == 0
    assert said.out.isascii()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", said.out)
    assert any(EVIL in event.get("task", "") for event in said.events)

"""Approvals in a notebook: by the stdin channel of the kernel in which the agent's own cell runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

from codeact_kernel.agent import approve_in_notebook
from codeact_kernel.approval import Answer, Request
from codeact_kernel.blocks import CodeBlock

CELL = """
from codeact_kernel import Agent
from codeact_kernel.agent import approve_in_notebook
from codeact_kernel.testing import ScriptedModel

model = ScriptedModel([
    '<run_code id="one">\\nprint(6 * 7)\\n</run_code>\\n<run_code id="two">\\nprint("two")\\n</run_code>',
    *["Done."] * 2,
])
async with Agent(model, approve="ask", approver=approve_in_notebook, run_dir=False) as agent:
    await agent.run("Go.")
print(*(message.content for message in model.requests[-1].messages[1:]))
"""


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["python3", "codeact"])
def test_what_is_asked_is_answered_below_the_cell(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    manager, client = start_new_kernel(kernel_name=name, cwd=str(tmp_path))
    shown, asked = [], []

    def hear(message):
        if message["msg_type"] == "stream":
            shown.append(message["content"]["text"])

    def answer(message):
        asked.append(message["content"]["prompt"])
        client.input(["what", "y", "n not twice"][len(asked) - 1])

    try:
        reply = client.execute_interactive(
            CELL, allow_stdin=True, output_hook=hear, stdin_hook=answer, timeout=60
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    text = "".join(shown)
    assert reply["content"]["status"] == "ok", (text, reply["content"])
    assert "? block one wants to run\n" in text
    assert "    print(6 * 7)" in text
    assert len(asked) == 3
    assert "a always: every run_code block, whatever is in it" in asked[0]
    assert "42\n" in text
    assert "because the person said no: not twice." in text


@pytest.mark.kernel
def test_many_lines_are_edited_in_a_file_beside_the_notebook_and_then_asked_about(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    shown, asked, before = [], [], []

    def hear(message):
        if message["msg_type"] == "stream":
            shown.append(message["content"]["text"])

    def answer(message):
        asked.append(message["content"]["prompt"])
        if asked[-1].startswith("Edit "):
            (file,) = tmp_path.glob("codeact-edit-*.py")
            assert file.name in asked[-1]
            before.append(file.read_text())
            file.write_text("for word in 'ab':\n    print('my', word)\n")
        client.input(["e", "", "y", "n"][len(asked) - 1])

    try:
        client.execute_interactive(CELL, allow_stdin=True, output_hook=hear, stdin_hook=answer, timeout=60)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    text = "".join(shown)
    assert before == ["print(6 * 7)"]
    assert "    for word in 'ab':\n        print('my', word)\n" in text
    assert "my a\nmy b\n" in text
    assert list(tmp_path.glob("codeact-edit-*")) == []


def edits(monkeypatch, folder, change, *typed):
    """Type; the file that is edited meanwhile is changed at the second line."""
    monkeypatch.chdir(folder)
    lines = ["e", "", *typed]

    def typing(prompt):
        if prompt.startswith("Edit "):
            (file,) = folder.glob("codeact-edit-*")
            change(file)
        return lines.pop(0)

    monkeypatch.setattr("builtins.input", typing)


def code(text):
    return Request("block", "the agent", "b1", "run_code", "why", CodeBlock(text), arguments={"code": text})


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (lambda file: file.write_text("y = 2\nz = 3\n"), Answer(True, code="y = 2\nz = 3")),
        (lambda file: file.write_text("x = 1\n"), Answer(True)),
        (lambda file: None, Answer(True)),
    ],
)
def test_what_was_edited_is_what_runs(tmp_path, monkeypatch, change, answer):
    edits(monkeypatch, tmp_path, change, "y")
    assert approve_in_notebook(code("x = 1")) == answer
    assert list(tmp_path.iterdir()) == []


def test_arguments_of_a_call_are_edited_as_json_and_what_is_none_changes_nothing(
    tmp_path, monkeypatch, capsys
):
    call = Request("call", "the agent", "b1", "send", "why", arguments={"to": "a", "n": 1})
    edits(monkeypatch, tmp_path, lambda file: file.write_text('{"to": "b", "n": 2}'), "y")
    assert approve_in_notebook(call) == Answer(True, arguments={"to": "b", "n": 2})
    edits(monkeypatch, tmp_path, lambda file: file.write_text('{"to": '), "y")
    assert approve_in_notebook(call) == Answer(True)
    assert "It is as it was: " in capsys.readouterr().out


def test_nothing_is_read_through_what_a_block_has_put_in_the_file_s_place(tmp_path, monkeypatch, capsys):
    secret = tmp_path / "secret"
    secret.write_text("x = 'secret'")

    def link(file):
        file.unlink()
        file.symlink_to(secret)

    def pipe(file):
        file.unlink()
        os.mkfifo(file)

    for change in (link, pipe, Path.unlink):
        edits(monkeypatch, tmp_path, change, "y")
        assert approve_in_notebook(code("x = 1")) == Answer(True)
        assert "It is as it was: " in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (["hm", "y"], Answer(True)),
        (["n"], Answer(False)),
        (["no", ""], Answer(False)),
        (["n too early"], Answer(False, "too early")),
        (["yes please", "always"], Answer(True, always=True)),
    ],
)
def test_only_what_is_an_answer_is_one_and_nothing_hides(typed, answer, monkeypatch, capsys):
    typed = list(typed)
    monkeypatch.setattr("builtins.input", lambda prompt: typed.pop(0))
    request = Request(
        "block", "scout", "b\u202e1", "run_code", "why", CodeBlock("x = 1\n\x1b[2Jy"), always="all blocks"
    )
    assert approve_in_notebook(request) == answer
    said = capsys.readouterr().out
    assert "scout: block b⟨U+202E⟩1 wants to run" in said
    assert "    ⟨U+001B⟩[2Jy" in said


def test_a_call_is_shown_with_its_arguments_and_its_diff(monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", lambda prompt: "y")
    request = Request(
        "call",
        "the agent",
        None,
        "edit_file",
        "why",
        classes=("write",),
        arguments={"path": "a.py", "n": 3, "thing": object},
        preview="-a\n+b",
    )
    approve_in_notebook(request)
    said = capsys.readouterr().out
    assert "? code of no block wants to call edit_file (write)" in said
    assert "    path = a.py\n    n = 3\n    thing = <class 'object'>\n    -a\n    +b" in said

"""What is shown at a terminal without having passed an agent."""

from __future__ import annotations

import sys

import pytest
from rich.console import Console

from codeact_kernel.approval import Request, text_of
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.cli import asked
from codeact_kernel.cli.app import main
from codeact_kernel.cli.streams import masked

KEY = "sk-0123456789abcdef"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", KEY)


def test_a_request_is_shown_without_secrets_and_stays_what_it_is():
    block = CodeBlock(f"login({KEY!r})")
    code = Request("block", "the agent", "b1", "run_code", "the mode ask", block, always=f"blocks with {KEY}")
    call = Request(
        "call", "the agent", "b1", "fetch", "", classes=("network",), arguments={"key": KEY, "n": 1}
    )
    console = Console(width=100)
    with console.capture() as shown:
        for request in (code, call):
            console.print(*asked.told_request(request), asked.told_keys(request))
    assert KEY not in shown.get()
    assert shown.get().count("[secret SOME_API_KEY]") == 3
    assert text_of(code)[0] == f"login({KEY!r})"


def test_a_bug_of_ours_is_printed_without_secrets(monkeypatch, capsys):
    def broken(*args, **kwargs):
        raise KeyError(KEY)

    monkeypatch.setattr("codeact_kernel.cli.app.typer.main.get_command", broken)
    monkeypatch.setattr(sys, "argv", ["codeact", "run", "x"])
    assert main() == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last)")
    assert said.endswith("KeyError: '[secret SOME_API_KEY]'\n")
    with pytest.raises(KeyError):
        main(["run", "x"])


def test_what_holds_none_is_the_same():
    text = "nothing here"
    assert masked(text) is text

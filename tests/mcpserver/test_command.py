"""What `codeact mcp` says of a wrong command line."""

from __future__ import annotations

import importlib.util

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")
from codeact_kernel.cli import main

WRONG = [
    (["--http", "here"], "--http here: write HOST:PORT, such as 127.0.0.1:8000"),
    (["--http", "0.0.0.0:0"], "others may reach 0.0.0.0, and whoever does can run code: give --token or"),
    (["--workspace", "nowhere"], "the workspace nowhere is no folder"),
    (["--http", "0", "--workspace", "nowhere"], "the workspace nowhere is no folder"),
    (["--tools", "nowhere.py"], "the tools nowhere.py cannot be loaded: FileNotFoundError"),
    (["--kernel", "nope"], "there is no kernel named 'nope'"),
    (["--python", "nope"], "nope"),
    (["--env", "NO_SUCH_VARIABLE"], "--env NO_SUCH_VARIABLE: there is no such variable here"),
    (["--max-memory", "much"], "--max-memory: 'much' is no size"),
]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_what_is_wrong_is_said_in_one_line_before_a_client_comes(capsys, arguments, words):
    assert main(["mcp", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


def test_without_the_extra_the_command_to_install_it_is_said(capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["mcp"]) == 2
    assert 'pip install "codeact-kernel[mcp]"' in capsys.readouterr().err

"""The command line itself: helps, and what is said of a wrong one."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

COMMANDS = [
    (),
    ("run",),
    ("chat",),
    ("demo",),
    ("install",),
    ("mcp",),
    ("model",),
    ("model", "fetch"),
    ("model", "list"),
]
HEAVY = (
    "IPython",
    "httpx",
    "ipykernel",
    "jupyter_client",
    "mcp",
    "nbformat",
    "openai",
    "prompt_toolkit",
    "rich",
    "tiktoken",
    "tree_sitter",
    "xllamacpp",
    "zmq",
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_help_says_what_the_command_is_for_and_gives_an_example(codeact, command):
    said = codeact(*command, "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Usage: {' '.join(('codeact', *command))} ")
    assert "\n  Example:\n    codeact " in said.out or command == ("model",)


@pytest.mark.parametrize("command", [(), ("model",)], ids=["codeact", "codeact model"])
def test_a_group_alone_prints_its_help(codeact, command):
    assert codeact(*command).out == codeact(*command, "--help").out
    assert codeact(*command).code == 0


def test_the_version_is_that_of_the_package(codeact):
    from codeact_kernel import __version__

    assert codeact("--version").out == f"codeact-kernel {__version__}\n"


@pytest.mark.parametrize("command", [["--help"], ["run", "--help"], ["--version"], ["run", "--nonsense"]])
def test_a_command_that_does_nothing_loads_nothing_heavy(command):
    script = (
        "import sys, json; from codeact_kernel.cli import main; main(sys.argv[1:]);"
        f" print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *command], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stderr.splitlines()[-1]) == []


WRONG = [
    (["--nonsense"], "no such option: --nonsense"),
    (["nonsense"], "no such command 'nonsense'; see `codeact --help`"),
    (["run", "--modle", "x", "t"], "--model"),
    (["run", "--model"], "option '--model' requires an argument"),
    (["run", "what", "now"], "unexpected extra argument"),
    (["run", "--max-turns", "0", "t"], "greater than or equal to 1"),
    (["run", "--max-turns", "many", "t"], "--max-turns"),
    (["run", "--max-time", "soon", "t"], "--max-time: 'soon' is no duration: write 500ms, 2s, 5m, 1h"),
    (["run", "--max-time", "0s", "t"], "above zero"),
    (["run", "--max-memory", "much", "t"], "--max-memory: 'much' is no size: write 500MB, 4GB"),
    (["chat", "--max-memory", "0"], "--max-memory: '0' is no size"),
    (["chat", "--max-time", "soon"], "--max-time: 'soon' is no duration"),
    (["run"], "there is no task"),
    (["run", "  "], "there is no task"),
    (["run", "t"], "no model is named: give --model, or set CODEACT_MODEL"),
    (["run", "--model", "gpt-5-mini", "t"], "no API key for"),
    (["run", "--model", "m", "--base-url", "nowhere", "t"], "nowhere"),
    (["run", "--model", "replay:nowhere.ipynb", "t"], "cannot replay nowhere.ipynb: No such file"),
    (["run", "--model", "local:7b", "t"], "there is no embedded model '7b'"),
    (["run", "--protocol", "morse", "t"], "no protocol"),
    (["run", "--workspace", "nowhere", "t"], "the workspace nowhere is no folder"),
    (["run", "--workspace", "a_file", "t"], "the workspace a_file is no folder"),
    (["run", "--tools", "nowhere.py", "t"], "the tools nowhere.py cannot be loaded: FileNotFoundError"),
    (["run", "--tools", "no_such_module", "t"], "the tools no_such_module cannot be loaded: ModuleNotFound"),
    (["run", "--tools", "broken.py", "t"], "the tools broken.py cannot be loaded: SyntaxError"),
    (["run", "--tools", "empty.py", "t"], "empty.py offers no tools"),
    (["run", "--env", "NO_SUCH_VARIABLE", "t"], "--env NO_SUCH_VARIABLE: there is no such variable here"),
    (["run", "--env", "KEY=value", "t"], "--env KEY: give only the name"),
    (["chat", "--model", "gpt-5-mini"], "no API key for"),
    (["demo", "--weights", "7b"], "there are no weights '7b': choose 0.5b, 1.5b, 135m"),
    (["demo", "--model", "gpt-5-mini", "--weights", "0.5b"], "--weights goes with --model local"),
    (["demo", "--model", "gpt-5-mini"], "no API key for"),
    (["model", "fetch", "7b"], "there is nothing called '7b' to fetch: choose one of 0.5b"),
    (["model", "nonsense"], "no such command 'nonsense'; see `codeact model --help`"),
    (["install", "--user", "--sys-prefix"], "give one of --user, --sys-prefix and --prefix"),
    (["install", "--prefix", "p", "--name", "a b"], "'a b' is no name for a kernelspec"),
    (["install", "--prefix", "a_file"], "cannot be written to"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_what_is_wrong_is_said_in_one_line(codeact, place, arguments, words):
    (place / "a_file").touch()
    (place / "broken.py").write_text("def f(:\n")
    (place / "empty.py").write_text("x = 1\n")
    said = codeact(*arguments)
    assert (said.code, said.out) == (2, "")
    assert words in said.line


def test_what_is_wrong_in_the_settings_is_said_with_the_file(codeact, place):
    (place / "codeact.toml").write_text('modle = "x"\n')
    said = codeact("run", "t")
    assert said.code == 2
    assert "codeact.toml: 'modle' is no setting; did you mean 'model'?" in said.line


def test_the_demo_says_what_to_install_before_it_fetches_anything(codeact, monkeypatch, tmp_path):
    monkeypatch.setenv("CODEACT_MODELS_DIR", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = codeact("demo")
    assert said.code == 2
    assert 'pip install "codeact-kernel[local]"' in said.line


def test_weights_that_are_not_here_are_said_with_the_command(codeact, monkeypatch, tmp_path):
    monkeypatch.setenv("CODEACT_MODELS_DIR", str(tmp_path))
    said = codeact("run", "--model", "local", "t")
    assert said.code == 2
    assert "codeact model fetch 0.5b" in said.line or "codeact-kernel[local]" in said.line


def test_the_list_of_models_says_what_is_here_and_where(codeact, monkeypatch, tmp_path):
    monkeypatch.setenv("CODEACT_MODELS_DIR", str(tmp_path))
    said = codeact("model", "list")
    assert "0.5b            491 MB  no    Qwen2.5-Coder-0.5B-Instruct (Q4_K_M, Apache-2.0)\n" in said.out
    assert str(tmp_path) in said.out
    assert "local:/path/to/model.gguf" in said.out


def test_a_reader_that_leaves_is_no_traceback(place):
    script = "import sys; from codeact_kernel.cli import main; sys.exit(main(['--help']))"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(30) == 1

"""The command line as a user has it: a process with pipes, or one at a terminal; nothing of the user's own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from codeact_kernel.cli import main
from codeact_kernel.testing import ScriptedEndpoint

COMMAND = [sys.executable, "-m", "codeact_kernel.cli"]
PATIENCE = 60.0
"""Seconds after which something that did not happen will not happen; a busy machine starts a kernel in ten."""
_OWN = (
    "CODEACT_MODEL",
    "LLM_API_KEY",
    "OPENAI_API_KEY",
    "LLM_BASE_URL",
    "OPENAI_BASE_URL",
    "CODEACT_MODELS_DIR",
)
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][0-9A-B]|[=>78M])")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty workspace to stand in, and none of the user's own keys and settings."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    for name in _OWN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    return workspace


@dataclass
class Said:
    """What a command has said."""

    code: int
    out: str
    err: str
    walls: str = ""
    """The line on stderr that names the sandbox; each run has it, and `err` is the rest."""

    @classmethod
    def of(cls, code, out, err):
        """Part what was said."""
        lines = err.splitlines(keepends=True)
        walls = [line for line in lines if line.startswith("codeact: sandbox: ")]
        assert len(walls) <= 1
        return cls(code, out, "".join(line for line in lines if line not in walls), "".join(walls))

    @property
    def line(self):
        """The one line on stderr that says what is wrong."""
        assert self.err.startswith("codeact: "), self.err
        assert self.err.count("\n") == 1, self.err
        return self.err.strip()

    @property
    def events(self):
        """The events on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def codeact(place, capsys):
    """Runs a command in this process."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Said.of(code, captured.out, captured.err)

    return run


class Piped:
    """A command in a process of its own, with pipes."""

    def __init__(self, *arguments, stdin=subprocess.DEVNULL, **options):
        command = [*COMMAND, *map(str, arguments)]
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        self.process = subprocess.Popen(command, text=True, start_new_session=True, **pipes)

    def end(self, text=None):
        """Wait for its end."""
        out, err = self.process.communicate(text, timeout=PATIENCE)
        return Said.of(self.process.returncode, out, err)

    def interrupt(self, number=signal.SIGINT):
        self.process.send_signal(number)


@pytest.fixture
def piped(place):
    """Starts commands with pipes."""
    started = []

    def start(*arguments, **options):
        started.append(Piped(*arguments, **options))
        return started[-1]

    yield start
    for command in started:
        if command.process.poll() is None:
            command.process.kill()
        command.process.communicate()


class Terminal:
    """A command at a terminal of a size."""

    def __init__(self, *arguments, width=80, height=24, stdout=1):
        self.raw = b""
        self._seen = 0
        pid, self._fd = pty.fork()
        if pid == 0:
            # Before anything is drawn; and with our environment, not that of C, in which libraries leave COLUMNS.
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            env = os.environ | {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
            for name in ("COLUMNS", "LINES"):
                env.pop(name, None)
            os.dup2(stdout, 1)
            os.execve(COMMAND[0], [*COMMAND, *map(str, arguments)], env)
        self.pid = pid
        self.code = None

    @property
    def text(self):
        """All that was shown, without escape sequences."""
        return _ESCAPE.sub("", self.raw.decode("utf-8", "replace"))

    def until(self, words):
        """Read until these words are shown, behind those that the last call found."""
        end = time.monotonic() + PATIENCE
        while (at := self.text.find(words, self._seen)) < 0:
            assert self._read(end), f"{words!r} was never shown:\n{self.text}"
        self._seen = at + len(words)

    def type(self, keys):
        os.write(self._fd, keys.encode())

    def interrupt(self):
        self.type("\x03")

    def signal(self):
        """As `interrupt`, but the terminal does not drop what it holds and nobody has read, as it does at a Ctrl-C."""
        os.kill(self.pid, signal.SIGINT)

    def end(self):
        """Read to the end, and return the exit code."""
        end = time.monotonic() + PATIENCE
        while self._read(end):
            pass
        self._reap()
        return self.code

    def kill(self):
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._reap()
        os.close(self._fd)

    def _reap(self):
        _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)

    def _read(self, end):
        ready, _, _ = select.select([self._fd], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"nothing happened any more:\n{self.text}"
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # the other side is closed
            return False
        self.raw += data
        return bool(data)


@pytest.fixture
def terminal(place):
    """Starts commands at terminals."""
    started = []

    def start(*arguments, **size):
        started.append(Terminal(*arguments, **size))
        return started[-1]

    yield start
    for command in started:
        command.kill()


@pytest.fixture
def scripted(place):
    """Serves a script, and gives the options that lead there."""
    with contextlib.ExitStack() as stack:

        def serve(script, **options):
            endpoint = stack.enter_context(ScriptedEndpoint(script, **options))
            return "--model", "scripted", "--base-url", endpoint.base_url

        serve.stack = stack
        yield serve


def block(code, **attributes):
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<run_code{written}>\n{code}\n</run_code>"


@pytest.fixture(name="block")
def block_():
    return block


@pytest.fixture
def record(place):
    """Reads the one record of the workspace."""

    def read():
        (notebook,) = place.glob(".codeact/runs/*/run.ipynb")
        return json.loads(Path(notebook).read_text("utf-8"))

    return read

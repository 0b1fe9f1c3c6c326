"""`!command` and its kin: shell commands of IPython's syntax.

Comes in: command lines. Goes out: their output, as it comes, through `print`; their exit codes. IPython's own
functions give the command a terminal as its stdin, so that `!cat` waits for ever, and swallow an interrupt, so
that the block goes on with its next line.
"""

from __future__ import annotations

import codecs
import os
import pty
import select
import subprocess
import termios
from collections.abc import Callable
from typing import Any

from ipykernel import zmqshell
from IPython.utils import _process_common

from codeact_kernel.inkernel.children import Children
from codeact_kernel.inkernel.request import current

POLL = 0.05
"""Seconds between looks at a command whose terminal something else holds, too; and between the bytecodes at which
an asynchronous exception can land."""
CHUNK = 64 * 1024
SIZE = (24, 80)
"""Lines and columns of the terminal, as pexpect has them."""


def adopt_commands(children: Children) -> None:
    """From now on IPython's commands run here.

    Args:
        children: Reads on where a command leaves something behind that still writes.
    """

    def system(command: str) -> int:
        return run(command, children)

    zmqshell.system = system
    _process_common.process_handler = capture


def run(command: str, children: Children) -> int:
    """Run a command on a terminal of its own, with no input, and print its output as it comes.

    Args:
        command: The command line, for the user's shell.
        children: As in `adopt_commands`.

    Returns:
        Its exit code, or minus the number of the signal that ended it.
    """
    terminal, end = pty.openpty()
    os.set_blocking(terminal, False)
    termios.tcsetwinsize(end, SIZE)
    try:
        process = subprocess.Popen(_shell(command), stdin=subprocess.DEVNULL, stdout=end, stderr=end)
    except BaseException:
        os.close(terminal)
        raise
    finally:
        os.close(end)
    held = True
    try:
        held = _print_until_end(terminal, process)
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        request = current.get()
        if held and request is not None:
            children.follow(terminal, request)
        else:
            os.close(terminal)
    return 128 - code if code > 128 else code


def capture(command: Any, callback: Callable[[Any], Any], stderr: int | None = None) -> Any:
    """Run a command for IPython's `getoutput` and its kin (`process_handler` in IPython.utils).

    Args:
        command: A command line, or a list.
        callback: Gets the process; what it returns is returned.
        stderr: As for `subprocess.Popen`; a pipe unless given.
    """
    argv = _shell(command) if isinstance(command, str) else command
    stderr = subprocess.PIPE if stderr is None else stderr
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr) as process:
        try:
            return callback(process)
        except BaseException:
            process.kill()
            raise


def _shell(command: str) -> list[str]:
    return [os.environ.get("SHELL") or "/bin/sh", "-c", command]


def _print_until_end(terminal: int, process: subprocess.Popen[bytes]) -> bool:
    """Print what comes; returns whether something else still holds the terminal."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    poll = select.poll()
    poll.register(terminal, select.POLLIN)
    while True:
        ended = process.poll() is not None
        ready = poll.poll(0 if ended else POLL * 1000)
        if not ready and ended:
            return True
        try:
            data = os.read(terminal, CHUNK) if ready else None
        except BlockingIOError:
            continue
        except OSError:
            # How Linux says that nobody holds the other end any more.
            data = b""
        if data is not None:
            print(decode(data, final=not data), end="")
        if data == b"":
            return False

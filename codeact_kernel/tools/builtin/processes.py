"""One process and all that it starts, from its first line of output to the end of its tree.

Comes in: a program and its arguments. Goes out: how it ended, and what it printed, with a long middle left out; to
who wants it, what it prints as it comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psutil

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.serve import walled

OUTPUT = 2**20
"""Bytes of each stream that are kept: half at its beginning, half at its end. Ours: hundreds of a model's pages."""
MARK = "CODEACT_COMMAND"
"""A variable that every process of the tree inherits, also one that leaves the session."""
_ROUNDS = 20
"""How often the tree is looked for, since a process may fork while the others are ended."""
_NEW = 2.0
"""Seconds in which a process may show an empty environment because it is just being made: at one of seven looks right
after `Popen` has returned, on two busy cores."""
_LAST_WORDS = 1.0
"""Seconds in which what is left in the pipes is read, once the tree has ended. Ours: only what has cut itself off
from the tree can still hold them."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    code: int
    """Its exit code; minus the signal's number where one ended it."""
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool


async def run_process(
    argv: Sequence[str],
    folder: int,
    env: Mapping[str, str],
    timeout: float,
    stdin: bytes = b"",
    keep: int = OUTPUT,
    hear: Sequence[Callable[[bytes], None]] = (),
    pass_fds: Sequence[int] = (),
    walls: bool = False,
) -> Ended:
    """Run a program to its end, or until it has taken too long; nothing of it lives on, also when this is cancelled.

    Args:
        argv: The program and its arguments.
        folder: A descriptor of the folder in which it runs.
        env: Its environment.
        timeout: Seconds.
        stdin: What it reads.
        keep: Bytes of each stream that are kept.
        hear: What is told the bytes of stdout and of stderr, as they come; empty where nobody is.
        pass_fds: Descriptors that it inherits.
        walls: Whether it runs behind the walls of the block that calls, where that is behind any.

    Raises:
        ToolError: If there is no such program, or it cannot be started.
    """
    begun, mark = time.monotonic(), secrets.token_hex(16)
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        process = _start(argv, folder, {**env, MARK: mark}, given.fileno(), pass_fds, walls)
    assert process.stdout is not None
    assert process.stderr is not None
    to_out, to_err = hear or (None, None)
    out = _Heard(process.stdout.fileno(), keep, to_out)
    err = _Heard(process.stderr.fileno(), keep, to_err)
    timed_out = False
    try:
        with process.stdout, process.stderr, out, err:
            try:
                async with asyncio.timeout(timeout):
                    await wait_exit(process)
            except TimeoutError:
                timed_out = True
            await end_tree(process, mark)
            await asyncio.wait([out.closed, err.closed], timeout=_LAST_WORDS)
    finally:
        await end_tree(process, mark)
    return Ended(process.returncode, out.data(), err.data(), time.monotonic() - begun, timed_out)


def _start(
    argv: Sequence[str],
    folder: int,
    env: Mapping[str, str],
    stdin: int,
    pass_fds: Sequence[int],
    walls: bool,
) -> subprocess.Popen[bytes]:
    # By descriptor: the folder that was checked, whatever lies at its path by now.
    cwd = f"/proc/self/fd/{folder}"
    name = argv[0]
    if walls and (behind := walled(argv, env, os.readlink(cwd))) is not None:  # noqa: PTH115
        if shutil.which(name, path=env.get("PATH")) is None:
            raise ToolError(f"there is no program {name!r} here; shutil.which(name) tells what is there")
        argv, env, cwd = behind
    try:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    except FileNotFoundError as error:
        raise ToolError(
            f"there is no program {argv[0]!r} here; shutil.which(name) tells what is there"
        ) from error
    except (OSError, ValueError) as error:
        raise ToolError(f"{argv[0]!r} cannot be run: {error}") from error


async def wait_exit(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has ended, whoever still holds its pipes."""
    fd = os.pidfd_open(process.pid)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(fd, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


async def end_tree(process: subprocess.Popen[bytes], mark: str) -> None:
    """End what there is of a tree, and wait for its first process. A second cancel does not stop it.

    Args:
        process: Its first process, which leads a session of its own.
        mark: The value of `MARK` in its environment.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(asyncio.to_thread(_reap, process, mark))


def _reap(process: subprocess.Popen[bytes], mark: str) -> None:
    # Its number stays taken until it is waited for: so a session of that number is its own.
    for _ in range(_ROUNDS):
        found = {pid: _belongs(pid, process.pid, mark) for pid in psutil.pids() if pid != process.pid}
        for pid, belongs in found.items():
            if belongs:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        if not any(belongs or belongs is None for belongs in found.values()):
            break
        time.sleep(0.01)
    process.wait()


def _belongs(pid: int, session: int, mark: str) -> bool | None:
    """Whether a process is of the tree; None where that cannot be told yet."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if os.getsid(pid) == session:
            return True
        environment = process.environ()
        if not environment and time.time() - process.create_time() < _NEW:
            return None
        return environment.get(MARK) == mark
    except (OSError, psutil.Error):
        return False


class _Heard:
    """What a pipe says: its beginning and its end.

    Args:
        fd: The pipe.
        keep: Bytes that are kept.
        hear: Told what comes; None for nobody.
    """

    def __init__(self, fd: int, keep: int, hear: Callable[[bytes], None] | None) -> None:
        self._fd = fd
        self._hear = hear
        self._half = keep // 2
        self._head, self._tail = bytearray(), bytearray()
        self._size = 0
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def __enter__(self) -> _Heard:
        os.set_blocking(self._fd, False)
        self._loop.add_reader(self._fd, self._read)
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.remove_reader(self._fd)

    def data(self) -> bytes:
        """What was kept, with a word about what was not."""
        left_out = self._size - len(self._head) - min(len(self._tail), self._half)
        if not left_out:
            return bytes(self._head + self._tail)
        note = f"\n[... {left_out} bytes left out here]\n".encode()
        return bytes(self._head + note + self._tail[-self._half :])

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 2**16)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._fd)
            if not self.closed.done():
                self.closed.set_result(None)
            return
        if self._hear is not None:
            self._hear(data)
        self._size += len(data)
        space = self._half - len(self._head)
        self._head += data[:space] if space > 0 else b""
        self._tail += data[max(space, 0) :]
        if len(self._tail) > 4 * self._half:
            del self._tail[: -self._half]

"""Cleans up after a host that is gone, however it went.

Comes in: kernels that were started, and ended. Goes out: nothing, as long as the host lives. One process a
host holds the end of a pipe; when the pipe closes, with a proper end, a `kill -9` or a power cut of the host,
it ends the kernels that were not released, with all their descendants, and removes their folders.

The file runs as that process itself, with the standard library only: `python janitor.py`, notes on stdin.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

ROUNDS = 20
"""How often the descendants of a kernel are looked for, since one may fork while the others are ended."""
ENDING = 30.0
"""Seconds that a command may take which ends what is elsewhere."""


class Janitor:
    """The host's end: notes what has to go when the host does.

    One serves a whole process; it is started with the first kernel.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe: IO[bytes] | None = None

    def watch(self, folder: Path, pid: int | None = None, ending: Sequence[str] = ()) -> None:
        """Note a folder, and what goes with it. What was noted of it before is forgotten.

        Args:
            folder: The folder: a kernel's, or another one.
            pid: The kernel's process.
            ending: A command that ends what that process stands for, where it is only the near end of it.
        """
        self._note({"watch": str(folder), "pid": pid, "ending": list(ending)})

    def release(self, folder: Path) -> None:
        """Take note that a folder is gone, and what went with it has ended.

        Args:
            folder: The folder.
        """
        self._note({"release": str(folder)})

    def _note(self, note: dict[str, object]) -> None:
        with self._lock:
            if self._pipe is None:
                self._pipe = _start()
            try:
                self._pipe.write(json.dumps(note).encode() + b"\n")
                self._pipe.flush()
            except OSError:
                # Somebody has killed it. The next note starts another, which then knows that one kernel.
                self._pipe = None


def _start() -> IO[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # It ends by itself when the pipe closes, and nobody waits for it.
    process.returncode = 0
    assert process.stdin is not None
    return process.stdin


def descendants(root: int, proc: str = "/proc") -> list[int]:
    """The processes below one.

    Args:
        root: The process at the top; not part of the result.
        proc: Where the system tells of processes.

    Returns:
        Their ids, parents before children, without those that have ended; empty where there is no /proc.
    """
    children: dict[int, list[int]] = {}
    for name in os.listdir(proc) if os.path.isdir(proc) else ():  # noqa: PTH112, PTH208
        # One that ends while it is looked at may be any error, and is none of the others' business.
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(name)
            # The name stands in brackets and may hold anything.
            fields = Path(proc, name, "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] != b"Z":
                children.setdefault(int(fields[1]), []).append(pid)
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def end(pid: int) -> None:
    """End a process and everything below it, at once.

    Args:
        pid: The process.
    """
    _send(pid, signal.SIGSTOP)
    for _ in range(ROUNDS):
        below = descendants(pid)
        for child in below:
            _send(child, signal.SIGKILL)
        if not below:
            break
        time.sleep(0.01)
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    _send(pid, signal.SIGKILL)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def serve(notes: IO[bytes]) -> None:
    """Take notes until the host is gone, then clean up.

    Args:
        notes: One JSON object a line.
    """
    watched: dict[str, dict[str, Any]] = {}
    for line in notes:
        note = json.loads(line)
        if "watch" in note:
            watched[note["watch"]] = note
        watched.pop(note.get("release"), None)
    for note in watched.values():
        if note["pid"] is not None:
            end(note["pid"])
    for note in watched.values():
        if note["ending"]:
            _run(note["ending"])
    for folder in watched:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: Sequence[str]) -> None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=ENDING,
            check=False,
        )


janitor = Janitor()


def make_folder(prefix: str) -> Path:
    """Make a temporary folder that goes with this process, however that ends.

    Args:
        prefix: What its name begins with.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    janitor.watch(folder)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove such a folder.

    Args:
        folder: The folder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    janitor.release(folder)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    serve(sys.stdin.buffer)

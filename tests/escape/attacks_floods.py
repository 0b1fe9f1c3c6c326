"""Attacks that use up what others need: processes, memory, disk."""

from __future__ import annotations

import mmap
import os
import signal
import tempfile
import time
from pathlib import Path

from attacks import Facts, Stopped, attack

MIB = 1 << 20


@attack
def start_too_many_processes(facts: Facts) -> str | None:
    """A few more than the limit says, all of which end together."""
    read, write = os.pipe()
    started: list[int] = []
    try:
        for _ in range(facts["processes"] + 50):
            try:
                pid = os.fork()
            except OSError as error:
                return f"stopped: {error.strerror}"
            if pid == 0:
                os.close(write)
                os.read(read, 1)
                os._exit(0)
            started.append(pid)
    finally:
        os.close(write)
        for pid in started:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return None


@attack
def take_too_much_memory(facts: Facts) -> None:
    """In one process. It is not touched, so it only counts."""
    bytearray(facts["data"] + 64 * MIB)


@attack
def take_too_much_shared_memory(facts: Facts) -> None:
    """Memory that is shared with children counts for nobody's limit."""
    mmap.mmap(-1, facts["data"] + 64 * MIB).close()


@attack
def take_too_much_memory_in_a_tree(facts: Facts) -> str:
    """Children that each take half of what one process may, for half a minute; this one waits for them."""
    children = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            try:
                block = bytearray(facts["data"] // 2)
                # Pages exist when they are written.
                block[:: mmap.PAGESIZE] = b"x" * len(block[:: mmap.PAGESIZE])
                time.sleep(30)
            finally:
                os._exit(0)
        children.append(pid)
    ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    if any(ends):
        raise Stopped(f"the children ended with {ends}")
    return "got through"


@attack
def write_too_large_a_file(facts: Facts) -> None:
    """Of nothing: it takes no room on the disk."""
    with tempfile.TemporaryFile(dir=facts["workspace"]) as file:
        file.truncate(facts["file_size"] + 1)


def fill(folder: str, room: int) -> None:
    """With files of 8 MiB that are removed again."""
    made: list[Path] = []
    try:
        while len(made) * 8 * MIB <= room:
            descriptor, path = tempfile.mkstemp(dir=folder)
            made.append(Path(path))
            try:
                os.posix_fallocate(descriptor, 0, 8 * MIB)
            finally:
                os.close(descriptor)
    finally:
        for path in made:
            path.unlink()


@attack
def fill_tmp(facts: Facts) -> None:
    fill("/tmp", facts["room"])


@attack
def fill_shared_memory(facts: Facts) -> None:
    fill("/dev/shm", facts["room"])


@attack
def fill_the_workspace(facts: Facts) -> None:
    fill(facts["workspace"], facts["room"])

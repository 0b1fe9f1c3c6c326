"""The runs of a workspace: which there are, and which can go.

Comes in: a workspace. Goes out: `KnownRun`s; the removal of old ones, and of what processes have left that are gone.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from codeact_kernel.agent.recording import JOURNAL
from codeact_kernel.agent.runlock import RunLock, holder
from codeact_kernel.errors import ConfigError
from codeact_kernel.record import SUMMARY
from codeact_kernel.runfiles import Folder, open_plain

RUNS = Path(".codeact") / "runs"
LEFT_OVER = 86_400.0
"""Seconds that a temporary folder lies untouched before it can be taken for left over."""
_TEMPORARY = ("ck-", "codeact-outputs-")
_LARGEST = 2**24
"""Bytes of a summary that are read; one of ours has some kilobytes, and its task."""


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run, as its folder tells of it."""

    folder: Path
    state: str
    """"running", "crashed", or why it ended: "answered", "limit", "cancelled", "failed"."""
    pid: int | None
    """The process that works on it; None for none."""
    touched: float
    """When something last happened, in seconds since the epoch."""
    size: int
    """Bytes of all its files."""
    summary: dict[str, Any]
    """What it says of itself; empty where it says nothing that can be read."""


def known_runs(workspace: Path) -> list[KnownRun]:
    """The runs of a workspace, the latest first.

    Args:
        workspace: The workspace. Runs whose record is elsewhere are not found.
    """
    return runs_in(workspace / RUNS)


def runs_in(place: Path) -> list[KnownRun]:
    """The runs whose folders are in a folder, the latest first.

    Args:
        place: The folder; it may not be there.
    """
    folders = [folder for folder in place.iterdir() if _is_run(folder)] if place.is_dir() else []
    return sorted(map(_known, folders), key=lambda run: run.touched, reverse=True)


def old_runs(runs: list[KnownRun], age: float, keep: int, now: float) -> list[KnownRun]:
    """The runs that can go.

    Args:
        runs: All, the latest first.
        age: Seconds since something last happened in them.
        keep: How many of the latest stay in any case.
        now: The time, in seconds since the epoch.
    """
    return [run for run in runs[keep:] if run.pid is None and now - run.touched > age]


def remove_run(run: KnownRun) -> bool:
    """Remove a run's folder, unless somebody works on it by now.

    Args:
        run: The run.

    Returns:
        Whether it is gone.
    """
    folder = Folder.make(run.folder)
    try:
        lock = RunLock(folder)
    except ConfigError:
        return False
    finally:
        folder.close()
    shutil.rmtree(run.folder, ignore_errors=True)
    lock.release()
    return not run.folder.exists()


def leftovers(runs: list[KnownRun], now: float) -> Iterator[Path]:
    """What processes have left that are gone: half-written files of runs, and temporary folders that nobody uses.

    Args:
        runs: The runs that stay.
        now: The time, in seconds since the epoch.
    """
    for run in runs:
        if run.pid is None:
            yield from run.folder.rglob(".*.part")
    place = Path(tempfile.gettempdir())
    old = [path for path in place.iterdir() if path.name.startswith(_TEMPORARY) and _is_old(path, now)]
    if old:
        used = _words_of_processes()
        yield from (path for path in old if path.name not in used)


def remove_leftover(path: Path) -> None:
    """Remove a file or a folder that was left over. Never raises."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _is_run(folder: Path) -> bool:
    return not folder.is_symlink() and (folder / JOURNAL).is_file()


def _known(folder: Path) -> KnownRun:
    summary, pid = _summary(folder), holder(folder)
    state = str(summary.get("state", "running"))
    if pid is not None:
        state = "running"
    elif state == "running":
        state = "crashed"
    return KnownRun(folder, state, pid, (folder / JOURNAL).stat().st_mtime, _size(folder), summary)


def _summary(folder: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError), open_plain(folder / SUMMARY) as file:
        found = json.loads(file.read(_LARGEST))
        return found if isinstance(found, dict) else {}
    return {}


def _size(folder: Path) -> int:
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += (Path(base) / name).lstat().st_size
    return total


def _is_old(path: Path, now: float) -> bool:
    with suppress(OSError):
        about = path.lstat()
        mine = not hasattr(os, "geteuid") or about.st_uid == os.geteuid()
        return mine and now - about.st_mtime > LEFT_OVER
    return False


def _words_of_processes() -> str:
    """The command lines, folders and environments of all processes that can be looked at, as one text."""
    words: list[str] = []
    for process in psutil.process_iter():
        for look in (
            process.cmdline,
            lambda p=process: [p.cwd()],
            lambda p=process: list(p.environ().values()),
        ):
            with suppress(psutil.Error, OSError):
                words += look()
    return "\n".join(words)

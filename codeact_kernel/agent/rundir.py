"""Where a run's record goes.

Comes in: the workspace and the task. Goes out: a new folder, `.codeact/runs/<time>-<slug>` unless told.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from codeact_kernel.agent.recording import JOURNAL, NOTEBOOK
from codeact_kernel.errors import ConfigError
from codeact_kernel.record import AGENTS, slug
from codeact_kernel.runfiles import Folder, write_all


def make_runs(workspace: Path) -> None:
    """Make the folder in which records go by themselves, where it is not there.

    It is made before a kernel starts: what is there by then can be kept from being changed by blocks.

    Args:
        workspace: The folder in which the run works.

    Raises:
        ConfigError: As for `make_run_dir`.
    """
    try:
        Folder.make(workspace / ".codeact" / "runs", below=workspace).close()
        _ignore(workspace)
    except OSError as error:
        raise _cannot(workspace / ".codeact" / "runs", error) from error


def make_run_dir(workspace: Path, task: str, chosen: Path | None = None) -> Folder:
    """Make the folder of a run.

    Args:
        workspace: The folder in which the run works.
        task: The task, of which the name tells something.
        chosen: The folder that the user wants instead; must be new or empty.

    Returns:
        The folder, made and open; only its owner can read what is in it.

    Raises:
        ConfigError: If it cannot be made, holds a run already, or a link in the workspace leads elsewhere.
    """
    try:
        if chosen is not None:
            return _unused(Folder.make(chosen, below=workspace))
        make_runs(workspace)
        runs = Folder.make(workspace / ".codeact" / "runs", below=workspace)
        try:
            stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{slug(task)}"
            names = (stem if n == 1 else f"{stem}-{n}" for n in range(1, 10_000))
            return runs.sub(next(name for name in names if not runs.has(name)))
        finally:
            runs.close()
    except OSError as error:
        raise _cannot(chosen or workspace / ".codeact" / "runs", error) from error


def make_agent_dir(folder: Folder, name: str) -> Folder:
    """Make the folder of a sub-agent.

    Args:
        folder: Its parent's, open.
        name: Its name.

    Raises:
        ConfigError: As for `make_run_dir`.
    """
    try:
        agents = folder.sub(AGENTS)
        try:
            return _unused(agents.sub(slug(name)))
        finally:
            agents.close()
    except OSError as error:
        raise ConfigError(f"the folder of {name} cannot be made: {error.strerror}") from error


def _cannot(where: Path, error: OSError) -> ConfigError:
    return ConfigError(f"the run's folder {where} cannot be made: {error.strerror}")


def _unused(folder: Folder) -> Folder:
    if not (folder.has(NOTEBOOK) or _has_begun(folder)):
        return folder
    folder.close()
    raise ConfigError(f"{folder.path} holds a run already; give another --run-dir")


def _has_begun(folder: Folder) -> bool:
    """Whether a journal has a line: a run that was killed before it had a notebook is one that can be resumed."""
    with suppress(OSError), open(folder.read(JOURNAL), "rb") as journal:
        return journal.readline().endswith(b"\n")
    return False


def _ignore(workspace: Path) -> None:
    """Keep runs out of version control."""
    folder = Folder.make(workspace / ".codeact", below=workspace)
    try:
        with suppress(FileExistsError):
            fd = folder.create(".gitignore")
            try:
                write_all(fd, b"*\n")
            finally:
                os.close(fd)
    finally:
        folder.close()

"""Where a run's record goes.

Comes in: the workspace and the task. Goes out: a new folder, `.codeact/runs/<time>-<slug>` unless told.
"""

from __future__ import annotations

import re
import time
import unicodedata
from pathlib import Path

from codeact_kernel.errors import ConfigError

_SLUG = 40
AGENTS = "agents"
"""The folder of a run in which the records of its sub-agents are."""


def make_run_dir(workspace: Path, task: str, chosen: Path | None = None) -> Path:
    """Make the folder of a run.

    Args:
        workspace: The folder in which the run works.
        task: The task, of which the name tells something.
        chosen: The folder that the user wants instead; must be new or empty.

    Returns:
        The folder, made.

    Raises:
        ConfigError: If it cannot be made, or holds a run already.
    """
    if chosen is None:
        stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{slug(task)}"
        base = workspace / ".codeact" / "runs"
        chosen = next(
            path
            for n in range(1, 10_000)
            if not (path := base / (stem if n == 1 else f"{stem}-{n}")).exists()
        )
        _ignore(workspace)
    try:
        chosen.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the run's folder {chosen} cannot be made: {error.strerror}") from error
    if (chosen / "run.ipynb").exists():
        raise ConfigError(f"{chosen} holds a run already; give another --run-dir")
    return chosen


def slug(text: str) -> str:
    """Make a short, plain name of a text.

    Args:
        text: Any text.

    Returns:
        Lower-case letters, digits and dashes, at most 40; "run" where nothing is left.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
    return words[:_SLUG].rstrip("-") or "run"


def _ignore(workspace: Path) -> None:
    """Keep runs out of version control."""
    folder = workspace / ".codeact"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / ".gitignore"
        if not mark.exists():
            mark.write_text("*\n")
    except OSError:
        # The caller finds out with the next folder, and says so.
        return

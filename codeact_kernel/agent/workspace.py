"""Files that the caller puts into the workspace before a run.

Comes in: relative paths and what they shall hold. Goes out: the files.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from codeact_kernel.errors import ConfigError


def seed_files(workspace: Path, files: Mapping[str, Path | str | bytes]) -> None:
    """Put files into the workspace.

    Args:
        workspace: The folder.
        files: By relative path, a `Path` to copy from (a file or a folder), or the content as text or bytes.

    Raises:
        ConfigError: If a path leaves the workspace, or a file cannot be read or written.
    """
    root = workspace.resolve()
    for name, content in files.items():
        target = (root / name).resolve()
        if not target.is_relative_to(root) or target == root:
            raise ConfigError(f"the file {name!r} would lie outside the workspace")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                target.write_bytes(content)
            elif isinstance(content, str):
                target.write_text(content, "utf-8")
            elif content.is_dir():
                shutil.copytree(content, target, dirs_exist_ok=True)
            else:
                shutil.copyfile(content, target)
        except OSError as error:
            raise ConfigError(f"the file {name!r} cannot be put into the workspace: {error}") from error

"""Runs programs behind walls: what the tests of `inkernel/walls` share."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import codeact_kernel.inkernel.walls as walls

WALLS = Path(walls.__file__).parent
POOL = 64_123
"""A user without an account."""
AS_ROOT = os.geteuid() == 0
SYSTEM = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"]
PASSED = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


class Place:
    """A folder that every user can pass through, with a copy of the walls in it.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o755)
        self.walls = folder / "code" / "walls"
        shutil.copytree(WALLS, self.walls, ignore=shutil.ignore_patterns("__pycache__"))
        self.python, prefix = _interpreter()
        self.roots = [prefix, *SYSTEM, str(folder / "code")]

    def landlock(self, workspace: Path, **changes: Any) -> dict[str, Any]:
        """The part of a description by which only the interpreter is readable and only the workspace writable."""
        return {
            "read": [*self.roots, "/proc/self"],
            "write": [str(workspace)],
            "devices": ["/dev/null", "/dev/urandom"],
            **changes,
        }

    def command(self, spec: Any, program: list[str], *options: str) -> list[str]:
        """The command line for a program behind walls."""
        text = spec if isinstance(spec, str) else json.dumps(spec)
        return [self.python, "-I", "-S", str(self.walls / "__main__.py"), *options, text, "--", *program]

    def run(
        self, spec: Any, *program: str, as_user: bool = False, options: tuple[str, ...] = (), **more: Any
    ):
        """Run a program behind walls, as this user or as the one without an account."""
        return self.start(self.command(spec, list(program), *options), as_user=as_user, **more)

    def python_code(self, spec: Any, code: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run Python code behind walls."""
        return self.run(spec, self.python, "-I", "-c", code, **more)

    def start(
        self, command: list[str], *, as_user: bool = False, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        options: dict[str, Any] = {
            "env": PASSED,
            "cwd": "/",
            "timeout": 60,
            "capture_output": True,
            "text": True,
        }
        if as_user and AS_ROOT:
            options |= {"user": POOL, "group": POOL, "extra_groups": []}
            if not is_open(self.python):
                # The interpreter lies in a closed folder: what the walls are for, too.
                reach = {"workspace": str(self.folder), "uid": POOL, "gid": POOL, "expose": self.roots}
                command = self.command({"enter": reach, "uid": POOL, "gid": POOL}, command)
                del options["user"], options["group"], options["extra_groups"]
        return subprocess.run(command, check=False, **(options | more))


def _interpreter() -> tuple[str, str]:
    """One that the user without an account can execute, where there is one; and where it lies."""
    own = os.path.realpath(sys.executable)
    for candidate in (own, "/usr/bin/python3"):
        if Path(candidate).exists() and is_open(candidate):
            code = "import sys; print(sys.version_info >= (3, 11), sys.base_prefix)"
            new, prefix = subprocess.check_output([candidate, "-I", "-S", "-c", code], text=True).split()
            if new == "True":
                return os.path.realpath(candidate), prefix
    return own, sys.base_prefix


def is_open(path: str) -> bool:
    """Whether everybody may pass through all folders above a path."""
    return all(folder.stat().st_mode & 0o001 for folder in Path(path).parents)

"""The command that tells whether a goal is met.

Comes in: a command of the user's. Goes out: its exit code and output. It runs on the host, behind the walls of the
agent's blocks, with their environment: what it runs is what they have written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from codeact_kernel.environment import kernel_environment
from codeact_kernel.errors import ToolError
from codeact_kernel.kernels import Workshop
from codeact_kernel.tools import Caller, calling
from codeact_kernel.tools.builtin import CommandTools, Workspace

TIMEOUT = 1800.0
"""Seconds that it may take: as long as a block, since it is a whole test suite perhaps."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of it."""

    code: int
    output: str
    """What it printed: stdout, then stderr."""
    seconds: float = 0.0
    timed_out: bool = False


class Checks:
    """Runs such commands.

    Args:
        folder: Where.
        env: Names of the host's variables that they may see besides the plain ones.
        workshop: The walls.
    """

    def __init__(self, folder: Path, env: Sequence[str], workshop: Workshop) -> None:
        self._folder = folder
        self._env = env
        self._workshop = workshop

    async def __call__(self, command: str) -> Checked:
        """Run one, through the shell, to its end.

        Args:
            command: The command.
        """
        tools = CommandTools(Workspace(self._folder), kernel_environment(os.environ, tuple(self._env)))
        with calling(Caller(walled=self._workshop.walled)):
            try:
                ended = await tools.run_command(command, timeout=TIMEOUT, shell=True)
            except ToolError as error:
                return Checked(-1, error.message)
        output = "\n".join(filter(None, (ended["stdout"].rstrip("\n"), ended["stderr"].rstrip("\n"))))
        return Checked(ended["code"], output, ended["seconds"], ended["timed_out"])

"""Commands in the workspace, as a tool.

Comes in: a command from a block. Goes out: its exit code and output. It runs behind the walls of the block that calls.
Without a sandbox it has this program's rights, and what it opens is its own affair.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.builtin.echo import Echo
from codeact_kernel.tools.builtin.processes import run_process
from codeact_kernel.tools.builtin.workspace import Workspace
from codeact_kernel.tools.serve import notify

TIMEOUT = 120.0
"""Seconds that a command may take where nothing else is said. Ours: most builds and installs end within it."""


class CommandTools:
    """Tools that run programs.

    Args:
        workspace: The workspace.
        env: What programs see of the environment.
    """

    def __init__(self, workspace: Workspace, env: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._env = env

    async def run_command(
        self,
        command: str | list[str],
        timeout: float = TIMEOUT,
        cwd: str = ".",
        stdin: str = "",
        shell: bool = False,
        echo: bool = False,
    ) -> dict[str, Any]:
        """Run a program: a dict of code, stdout, stderr, timed_out.

        It runs in the workspace, to its end; the dict has its seconds, too.
        An exit code other than 0 is no error here: look at code. After the timeout the program is ended (code is -9)
        and what it printed until then comes back. Whatever it has started ends with it. Of a long output the
        beginning and the end come back, with a line between them that counts what was left out.

        Args:
            command: A list of arguments, or a text that is split into words as a shell would.
            timeout: Seconds.
            cwd: The folder in which it runs, in the workspace.
            stdin: What it reads.
            shell: Pass the text to /bin/sh: pipes, redirections, variables and globs work only then.
            echo: Show its lines in the block's output as they come, besides; of very many only some.

        Raises:
            ToolError: If there is no such program or folder.
        """
        argv = _argv(command, shell)
        if not isinstance(timeout, int | float) or not timeout > 0:
            raise ToolError(f"timeout={timeout!r}: pass seconds, above zero")
        with self._workspace.open(cwd, "folder") as folder, Echo(notify) as shown:
            hear = (shown.stream(), shown.stream()) if echo else ()
            ended = await run_process(argv, folder, self._env, timeout, stdin.encode(), hear=hear, walls=True)
        return {
            "code": ended.code,
            "stdout": ended.stdout.decode("utf-8", "replace"),
            "stderr": ended.stderr.decode("utf-8", "replace"),
            "seconds": round(ended.seconds, 3),
            "timed_out": ended.timed_out,
        }


def _argv(command: str | list[str], shell: bool) -> list[str]:
    if shell:
        if not isinstance(command, str):
            raise ToolError("with shell=True the command is one text; without it, a list of arguments")
        return ["/bin/sh", "-c", command]
    try:
        argv = shlex.split(command) if isinstance(command, str) else list(command)
    except (ValueError, TypeError) as error:
        raise ToolError(
            f"the command cannot be split into words: {error}; pass a list of arguments"
        ) from error
    if not argv or not all(isinstance(word, str) and "\0" not in word for word in argv):
        raise ToolError("the command is a text or a list of texts, and not empty")
    return argv

"""The built-in tools, bound to a workspace.

Comes in: a folder, and which groups of them. Goes out: tools, as for `Agent(tools=…)`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from codeact_kernel.environment import kernel_environment
from codeact_kernel.errors import ConfigError
from codeact_kernel.tools.builtin.commands import CommandTools
from codeact_kernel.tools.builtin.files import FileTools
from codeact_kernel.tools.builtin.search import SearchTools, find_ripgrep
from codeact_kernel.tools.builtin.suites import SuiteTools
from codeact_kernel.tools.builtin.workspace import Workspace
from codeact_kernel.tools.tool import Tool, as_tool, tool

__all__ = ["GROUPS", "CommandTools", "Workspace", "workspace_tools"]

GROUPS = ("files", "search", "commands", "web")


def workspace_tools(
    folder: Path | str, *groups: str, env: Sequence[str] = (), search: Mapping[str, Any] | None = None
) -> list[Tool]:
    """The built-in tools: for the files of a folder, for programs in it, and for the web.

    Each says what it does. Those that may change something, `write_file`, `edit_file`, `run_command` and `run_tests`,
    are called by no dry run. Commands and tests may do anything that this program may.

    Args:
        folder: The workspace. The tools for files open nothing outside it.
        groups: Which of them: "files" (`read_file`, `write_file`, `edit_file`, `list_dir`), "search" (`search_code`),
            "commands" (`run_command`, `run_tests`), "web" (`fetch`, and `web_search` where `search` is given). None
            named means all.
        env: Names of this process's variables that programs may see besides the plain ones.
        search: The web search service, as in the settings' table `[search]`; None or empty for none.

    Returns:
        The tools.

    Raises:
        ConfigError: If there is no such folder or group, or something of the search is wrong.
    """
    # httpx is loaded for those who use it.
    from codeact_kernel.tools.builtin.web import fetch
    from codeact_kernel.tools.builtin.websearch import SearchTool

    for group in groups:
        if group not in GROUPS:
            raise ConfigError(f"{group!r} is no group of built-in tools; there are {', '.join(GROUPS)}")
    workspace = Workspace(folder)
    seen = kernel_environment(os.environ, tuple(env))
    files, found = FileTools(workspace), SearchTools(workspace, seen, find_ripgrep())
    commands, suites = CommandTools(workspace, seen), SuiteTools(workspace, seen)
    reading, writing = partial(tool, kind="read"), partial(tool, kind="write")
    running, asking = partial(tool, kind=("write", "destructive", "network")), partial(tool, kind="network")
    by_group: dict[str, tuple[Callable[..., Any] | Tool, ...]] = {
        "files": (
            reading(files.read_file),
            writing(files.write_file, preview=files.preview_write),
            writing(files.edit_file, preview=files.preview_edit),
            reading(files.list_dir),
        ),
        "search": (reading(found.search_code),),
        "commands": (running(commands.run_command), running(suites.run_tests)),
        "web": (asking(fetch),),
    }
    wanted = groups or GROUPS
    if search and "web" in wanted:
        by_group["web"] = (asking(fetch), asking(SearchTool(search, os.environ).web_search))
    made = [as_tool(function) for group in GROUPS if group in wanted for function in by_group[group]]
    return [replace(one, folder=str(workspace.root)) for one in made]

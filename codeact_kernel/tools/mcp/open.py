"""The servers of a file, as toolsets.

Comes in: a file, or what it would hold. Goes out: toolsets, with nothing started.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from codeact_kernel.errors import ConfigError
from codeact_kernel.masking import Mask
from codeact_kernel.runfiles import Folder
from codeact_kernel.tools.mcp.calls import Elicit, Notice
from codeact_kernel.tools.mcp.config import read_servers, secrets_of
from codeact_kernel.tools.mcp.listing import ListingCache
from codeact_kernel.tools.mcp.log import ServerLog
from codeact_kernel.tools.mcp.server import McpServer
from codeact_kernel.tools.mcp.toolset import McpToolset

OLDEST = 2
"""The SDK's first version with what is used here. An older one is often there for other programs."""


def open_servers(
    source: Path | str | Mapping[str, Any],
    *,
    workspace: Path,
    notice: Notice,
    elicit: Elicit | None = None,
    logs: Callable[[], Folder | None] = lambda: None,
    cache: ListingCache | None = None,
    env: Mapping[str, str] | None = None,
    mask: Mask | None = None,
) -> list[McpToolset]:
    """Make toolsets of MCP servers. Nothing is started; whoever opens them closes them.

    Args:
        source: The path of a file with `mcpServers`, or what it would hold.
        workspace: The folder in which programs run, and that servers are told of as their root.
        notice: Shows a line in the output of the block in whose context it is called.
        elicit: Answers what servers ask a person; None declines, and says so in the block's output.
        logs: Gives the folder of the run, open, in whose `mcp/SERVER.log` is what servers say on stderr; None keeps the
            last lines only.
        cache: Where listings are kept between runs; None takes the user's cache.
        env: The environment that `${VAR}` in the file is taken from; None takes that of the process.
        mask: Learns what servers are given, and keeps it and what else it knows out of logs.

    Returns:
        A toolset for each server that is not disabled.

    Raises:
        ConfigError: If something in the file is wrong, or the SDK is not installed.
    """
    try:
        version = importlib.metadata.version("mcp")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    if int(version.partition(".")[0]) < OLDEST:
        raise ConfigError("MCP servers need the package mcp, 2.3 or later: pip install 'codeact-kernel[mcp]'")
    cache, mask, place = cache or ListingCache(), Mask() if mask is None else mask, _Logs(logs)
    servers = read_servers(source, workspace=workspace, env=env)
    for server in servers:
        mask.learn(secrets_of(server))
    return [
        McpToolset(
            McpServer(
                server,
                ServerLog(server.name, place, server.secrets, mask),
                notice=notice,
                elicit=elicit,
                cache=cache,
                workspace=workspace,
            )
        )
        for server in servers
    ]


class _Logs:
    """The folder of logs in a run's folder, opened once."""

    def __init__(self, run: Callable[[], Folder | None]) -> None:
        self._run = run
        self._folder: Folder | None = None

    def __call__(self) -> Folder | None:
        if self._folder is None and (run := self._run()) is not None:
            self._folder = run.sub("mcp")
        return self._folder

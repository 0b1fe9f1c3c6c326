"""Whether the user trusts a workspace whose settings want more than those of a stranger may.

Comes in: a workspace. Goes out: the settings; where somebody is there, after a question that shows what is wanted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from codeact_kernel.agent import Settings, UntrustedWorkspace, load_settings, remember
from codeact_kernel.controls import visible

_QUESTION = (
    "Do you trust this folder? Its tools and models count then, until its codeact.toml or the files that it names "
    "change. [y/N] "
)


def read_settings(workspace: Path, trusted: bool) -> Settings:
    """Read the settings of a workspace; asks at a terminal where they want what only a trusted one may.

    Args:
        workspace: The workspace.
        trusted: Whether the command line says that it is trusted.

    Raises:
        ConfigError: As in `load_settings`.
    """
    from codeact_kernel.cli.screens import somebody_is_there

    try:
        return load_settings(workspace, trusted=trusted)
    except UntrustedWorkspace as untrusted:
        if not somebody_is_there() or not _asked(untrusted):
            raise
        settings = load_settings(workspace, trusted=True)
        remember(untrusted.path)
        return settings


def _asked(untrusted: UntrustedWorkspace) -> bool:
    print(visible(f"{untrusted.path} wants:"), file=sys.stderr)
    for key, value in untrusted.wants.items():
        print(visible(f"  {key} = {_written(value)}"), file=sys.stderr)
    print(_QUESTION, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)

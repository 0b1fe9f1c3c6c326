"""The gate of a run, made of what the caller and the settings say.

Comes in: options, settings. Goes out: a `Gate`, which all agents of the run share.
"""

from __future__ import annotations

from pathlib import Path

from codeact_kernel.agent.config import Settings
from codeact_kernel.agent.options import Options
from codeact_kernel.approval import MODES, Mode
from codeact_kernel.errors import ConfigError
from codeact_kernel.policy import Gate


def make_gate(options: Options, settings: Settings, workspace: Path) -> Gate:
    """Make a run's gate.

    Args:
        options: What the caller wants.
        settings: The settings.
        workspace: Where relative paths count from.

    Raises:
        ConfigError: If the mode is none.
    """
    return Gate(workspace, wanted_mode(options, settings), settings.rules, options.approver)


def wanted_mode(options: Options, settings: Settings) -> Mode:
    """The mode of approval.

    Args:
        options: What the caller wants.
        settings: The settings.

    Raises:
        ConfigError: If it is none.
    """
    wanted = options.approve or settings.approve
    for mode in MODES:
        if mode == wanted:
            return mode
    raise ConfigError(f"approve is {wanted!r}; it is one of {', '.join(MODES)}")

"""What the settings of a workspace may say of themselves, and what only those of a workspace that the user trusts.

Comes in: the user's settings and the workspace's, as read. Goes out: both together. A workspace may be a stranger's:
its file alone may make a run stricter and smaller, never let it do more, load code, choose who is asked or see secrets.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

from codeact_kernel.allowance import weaker
from codeact_kernel.errors import ConfigError
from codeact_kernel.policy import Rules

FREE = frozenset(("protocol", "limit_reminder", "reminder_tokens", "result_tokens", "tools_tokens"))
"""What every workspace may set: it costs nothing, and opens nothing."""
LIMITS = frozenset({
    "block_timeout", "patience", "max_turns", "max_time", "max_tokens", "max_cost", "max_calls", "max_calls_per_agent",
    "max_calls_per_block", "checkpoint_size", "max_file", "max_growth", "max_memory", "max_agents", "max_agent_depth",
    "max_result", "ready_kernels",
})  # fmt: skip
"""What every workspace may lower."""
STRICTER = {"auto": ("ask", "rules", "deny-writes"), "ask": ("rules",), "rules": (), "deny-writes": ()}
"""By a mode of approval those that let nothing pass which it would not."""
_KEPT = "trusted-workspaces.json"


class UntrustedWorkspace(ConfigError):
    """The settings of a workspace want what only those of a trusted one may.

    Args:
        path: The file.
        wants: What it sets, by key.
        user: The user's own file.
    """

    def __init__(self, path: Path, wants: Mapping[str, Any], user: Path) -> None:
        self.path = path
        self.wants = wants
        keys = ", ".join(wants)
        super().__init__(
            f"{path} sets {keys}, which counts only where you trust the workspace: pass --trust-workspace "
            f"(Agent(trust_workspace=True)), or add the folder to trusted_workspaces in {user}"
        )


def merged(
    mine: Mapping[str, Any], theirs: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Put a workspace's settings over the user's.

    Args:
        mine: The user's.
        theirs: The workspace's.
        defaults: What holds where neither says anything.

    Returns:
        What holds where the workspace is not trusted, and what of it is left out of that.
    """
    holds, wants = dict(mine), dict[str, Any]()
    for key, value in theirs.items():
        before = mine.get(key, defaults.get(key))
        if key in FREE:
            holds[key] = value
        elif key in LIMITS:
            holds[key] = min(value, before, key=lambda limit: math.inf if limit is None else limit)
        elif key == "tool_limits":
            both = [before or {}, value]
            holds[key] = {name: min(of[name] for of in both if name in of) for of in both for name in of}
        elif key in ("sandbox_min", "approve") and _is_no_wider(key, value, before):
            holds[key] = value
        elif key == "rules" and not value.allow and value.defaults:
            holds[key] = value + mine.get("rules", Rules())
        else:
            wants[key] = value
    return holds, wants


def _is_no_wider(key: str, value: str, before: str | None) -> bool:
    if key == "sandbox_min":
        return before is None or not weaker(value, before)
    return value == before or value in STRICTER[before or "auto"]


def trusting(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Put the settings of a workspace that is trusted over the user's.

    Args:
        mine: The user's.
        theirs: The workspace's.
    """
    both = {**mine, **theirs}
    if models := {**mine.get("models", {}), **theirs.get("models", {})}:
        both["models"] = models
    if "rules" in mine and "rules" in theirs:
        both["rules"] = theirs["rules"] + mine["rules"]
    return both


def is_trusted(path: Path, folders: Sequence[str]) -> bool:
    """Whether a workspace's file is trusted: by one of the folders that the user names, or by an earlier yes.

    Args:
        path: The workspace's file.
        folders: Folders with all that is below them; `~` is the user's.
    """
    folder = path.parent.resolve()
    if any(folder.is_relative_to(Path(trusted).expanduser().resolve()) for trusted in folders):
        return True
    known = _known()
    return str(folder) in known and known[str(folder)] == _fingerprint(path)


def remember(path: Path) -> None:
    """Keep that the user trusts a workspace as it is: when its file or the code that it names changes, it is no more.

    Args:
        path: The workspace's file.
    """
    kept = _place()
    known = {**_known(), str(path.parent.resolve()): _fingerprint(path)}
    with suppress(OSError):  # then the question comes again
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(known, indent=1), "utf-8")


def _place() -> Path:
    return platformdirs.user_state_path("codeact-kernel") / _KEPT


def _known() -> dict[str, Any]:
    try:
        known = json.loads(_place().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _fingerprint(path: Path) -> str:
    """What a workspace's file says, and the files of the workspace that it names."""
    import tomllib

    digest = hashlib.sha256()
    said = path.read_bytes()
    raw = tomllib.loads(said.decode("utf-8"))
    named = [*raw.get("tools", ()), raw.get("mcp", "")]
    for data in (said, *(_content(path.parent / name) for name in named if isinstance(name, str) and name)):
        digest.update(hashlib.sha256(data).digest())
    return digest.hexdigest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""

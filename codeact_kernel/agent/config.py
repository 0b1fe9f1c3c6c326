"""Settings: what a user writes once instead of typing it each time.

Comes in: `codeact.toml` in the workspace, over the user's own in the platform's configuration folder. Goes
out: `Settings`. Every key is checked; a wrong one is an error that names the file and the known keys.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import platformdirs

from codeact_kernel.agent.trust import UntrustedWorkspace, is_trusted, merged, trusting
from codeact_kernel.approval import MODES
from codeact_kernel.blocks import parse_duration
from codeact_kernel.errors import ConfigError
from codeact_kernel.policy import Rules, read_rules
from codeact_kernel.sizes import parse_count, parse_size
from codeact_kernel.tools.builtin.searchapi import SearchApi

FILE_NAME = "codeact.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the settings files say. Durations are seconds."""

    model: str | None = None
    """The model that is asked where neither the command line nor the environment names one."""
    fallback: str | None = None
    """The model that answers while the first does not."""
    patience: float | None = 300.0
    """How long a model that does not answer is tried again, in seconds; None for ever ("none" in the file)."""
    lease: float | None = None
    """Seconds for which the kernel outlives a host that was killed; None for not at all ("none" in the file)."""
    protocol: str = "tags"
    """How blocks are exchanged with the model: "tags", "tools" or "json"."""
    models: Mapping[str, Any] = field(default_factory=dict)
    """Aliases: by name a model, or a table of what is known of it."""
    block_timeout: float | None = 1800.0
    """For a block that names no timeout; None for no limit ("none" in the file)."""
    reminder_tokens: int = 16_000
    """The size of the context from which the model is reminded to compact it."""
    result_tokens: int = 2_000
    """The most that the model reads of one result."""
    max_turns: int | None = None
    """Replies in a run, of all its agents together; as the three after it, None for no limit."""
    max_time: float | None = None
    max_tokens: int | None = None
    """Tokens of prompts and replies."""
    max_cost: float | None = None
    """US dollars."""
    limit_reminder: float = 0.8
    """Share of these limits from which each model is told what is left."""
    mcp: str | None = None
    """A file with `mcpServers`, in the workspace."""
    max_calls: int | None = None
    """Tool calls in a run, of all its agents together; None for no limit."""
    max_calls_per_agent: int | None = None
    max_calls_per_block: int | None = None
    tool_limits: Mapping[str, int] = field(default_factory=dict)
    """Calls of single tools in a run: by name ("fetch", "mcp:github:search_issues"), or by group ("mcp.github")."""
    max_result: int = 8_000_000
    """Bytes up to which a tool's result travels at once; code gets a handle to a larger one."""
    tools_tokens: int = 800
    """About what the system prompt spends on tools: where their lines take more, it lists names by group."""
    max_memory: int | None = None
    """Bytes that the kernel's processes may hold; past them they are ended."""
    max_agents: int = 50
    """Sub-agents that may be alive at once, in the whole tree of a run; each has a kernel of its own."""
    max_agent_depth: int = 3
    """Levels of sub-agents below the agent that you ask; 0 for none at all."""
    checkpoint_size: int = 1_000_000_000
    """Bytes that a checkpoint of an agent's namespace may have; 0 for no checkpoints."""
    preload: tuple[str, ...] = ()
    """Modules that are imported once and shared by the kernels of sub-agents."""
    ready_kernels: int = 1
    """Kernels for sub-agents that are started before they are asked for, from the first one on."""
    sandbox: str = "auto"
    """What blocks are walled in by: "auto", "none", "limits", "landlock" or "bwrap"."""
    sandbox_min: str | None = None
    """What "auto" must at least come to."""
    allow_net: bool = False
    """Whether blocks may use the network."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that blocks may reach over HTTP and HTTPS."""
    allow_read: tuple[str, ...] = ()
    """Folders and files outside of the workspace that blocks may read."""
    max_file: int = 16_000_000_000
    """Bytes of one file that blocks write."""
    max_growth: int = 20_000_000_000
    """Bytes by which the workspace may grow while a kernel lives; past them it is ended."""
    env: tuple[str, ...] = ()
    """Variables of the host that blocks may see."""
    tools: tuple[str, ...] = ()
    """Modules or files whose functions are tools, names of entry points, or "builtin"."""
    audit: str = "strict"
    """What becomes of a block or a call that cannot be audited: "strict", it does not run, and the run ends; "lenient",
    it runs, and the audit says so later; "off", there is no audit. Only in the user's own file."""
    audit_sync: bool = True
    """Whether a line of the audit is on the disk itself before what it says happens. Only in the user's own file."""
    approve: str = "auto"
    """What is asked before it happens: "auto", "ask", "deny-writes" or "rules"."""
    rules: Rules = field(default_factory=Rules)
    """What is denied, asked and allowed."""
    trusted_workspaces: tuple[str, ...] = ()
    """Folders whose own `codeact.toml`, and those below them, may say everything."""
    search: Mapping[str, Any] = field(default_factory=dict)
    """The service that the built-in tool `web_search` asks: a known one (`api`), or how it is asked and answers."""


_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "model": (str, "a text"),
    "fallback": (str, "a text"),
    "patience": ((str, int, float), 'a duration such as "5m"'),
    "lease": ((str, int, float), 'a duration such as "2h"'),
    "protocol": (str, "a text"),
    "models": (dict, "a table"),
    "block_timeout": ((str, int, float), 'a duration such as "30m"'),
    "reminder_tokens": (int, "a whole number"),
    "result_tokens": (int, "a whole number"),
    "max_turns": (int, "a whole number"),
    "max_time": ((str, int, float), 'a duration such as "2h"'),
    "max_tokens": ((str, int), 'a number of tokens such as "200k"'),
    "max_cost": ((int, float), "an amount of US dollars"),
    "limit_reminder": ((int, float), "a share such as 0.8"),
    "mcp": (str, "the path of a file"),
    "max_calls": (int, "a whole number"),
    "max_calls_per_agent": (int, "a whole number"),
    "max_calls_per_block": (int, "a whole number"),
    "tool_limits": (dict, "a table of whole numbers by tool"),
    "max_result": ((str, int), 'a size such as "8MB"'),
    "tools_tokens": (int, "a whole number"),
    "max_memory": ((str, int), 'a size such as "4GB"'),
    "max_agents": (int, "a whole number"),
    "max_agent_depth": (int, "a whole number"),
    "checkpoint_size": ((str, int), 'a size such as "1GB", or 0'),
    "preload": (list, "a list of modules"),
    "ready_kernels": (int, "a whole number"),
    "sandbox": (str, "a text"),
    "sandbox_min": (str, "a text"),
    "allow_net": (bool, "true or false"),
    "allow_hosts": (list, "a list of hosts"),
    "allow_read": (list, "a list of paths"),
    "max_file": ((str, int), 'a size such as "1GB"'),
    "max_growth": ((str, int), 'a size such as "20GB"'),
    "env": (list, "a list of names"),
    "tools": (list, "a list of modules or files"),
    "audit": (str, '"strict", "lenient" or "off"'),
    "audit_sync": (bool, "true or false"),
    "approve": (str, "a text"),
    "rules": (dict, "a table of lists: deny, ask, allow"),
    "trusted_workspaces": (list, "a list of folders"),
    "search": (dict, "a table"),
}
PROTOCOLS = ("tags", "tools", "json")
AUDITS = ("strict", "lenient", "off")
_USERS_ONLY = ("audit", "audit_sync", "trusted_workspaces")
"""Keys that no workspace's file may hold: blocks may write there."""
_FROM_ZERO = ("max_agent_depth", "ready_kernels")


def load_settings(workspace: Path, user: Path | None = None, *, trusted: bool = False) -> Settings:
    """Read the settings files.

    Args:
        workspace: The folder whose `codeact.toml` counts over the user's.
        user: The user's file; None takes the platform's place for it.
        trusted: Whether the workspace's file may say everything; else only where the user's file or an earlier yes of
            the user's says so.

    Returns:
        The settings; what no file says has its default.

    Raises:
        ConfigError: If a file is no TOML, or a key or value in it is wrong; if the workspace's file wants what only a
            trusted one may, an `UntrustedWorkspace`.
    """
    if user is None:
        user = platformdirs.user_config_path("codeact-kernel") / FILE_NAME
    path = workspace / FILE_NAME
    mine, theirs = _read(user), _read(path)
    for key in _USERS_ONLY:
        if key in theirs:
            raise ConfigError(f"{path}: {key} counts only in your own settings, {user}: take it out here")
    defaults = {f.name: f.default for f in fields(Settings) if f.default is not MISSING}
    holds, wants = merged(mine, theirs, defaults)
    if not wants:
        return Settings(**holds)
    if not (trusted or is_trusted(path, mine.get("trusted_workspaces", ()))):
        raise UntrustedWorkspace(path, wants, user)
    return Settings(**trusting(mine, theirs))


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the settings {path} cannot be read: {error}") from error
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the settings {path} are no TOML: {error}") from error
    return {key: _value(path, key, value) for key, value in raw.items()}


def _value(path: Path, key: str, value: Any) -> Any:
    known = [f.name for f in fields(Settings)]
    if key not in _KINDS:
        near = difflib.get_close_matches(key, known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"{path}: {key!r} is no setting; {hint}known are {', '.join(known)}")
    kind, words = _KINDS[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{path}: {key} is {value!r}; it takes {words}")
    if key in ("block_timeout", "max_time", "patience", "lease"):
        return _duration(path, key, value)
    if key == "checkpoint_size" and value == 0:
        return 0
    if key in ("checkpoint_size", "max_memory", "max_result", "max_file", "max_growth"):
        return _read_as(parse_size, path, key, value)
    if key == "max_tokens":
        return _read_as(parse_count, path, key, value)
    if isinstance(value, list):
        if not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{path}: {key} takes {words}")
        return tuple(value)
    if key == "search":
        return _search(path, value)
    if key == "rules" and isinstance(value, dict):
        return read_rules(value, str(path))
    if key == "approve" and value not in MODES:
        raise ConfigError(f"{path}: approve is {value!r}; it is one of {', '.join(MODES)}")
    limits = value.values() if key == "tool_limits" and isinstance(value, dict) else ()
    if not all(type(limit) is int and limit >= 0 for limit in limits):
        raise ConfigError(f"{path}: tool_limits takes {words}")
    if isinstance(value, int | float) and type(value) is not bool and key not in _FROM_ZERO:
        _check_bounds(path, key, value)
    if key == "protocol" and value not in PROTOCOLS:
        raise ConfigError(f"{path}: protocol is {value!r}; it is one of {', '.join(PROTOCOLS)}")
    if key == "audit" and value not in AUDITS:
        raise ConfigError(f"{path}: audit is {value!r}; it is one of {', '.join(AUDITS)}")
    return value


def _check_bounds(path: Path, key: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ConfigError(f"{path}: {key} must be above zero")
    if key == "limit_reminder" and value > 1:
        raise ConfigError(f"{path}: limit_reminder is a share, 1 at most")


def _search(path: Path, value: Any) -> Any:
    try:
        SearchApi.of(value)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return value


def _duration(path: Path, key: str, value: Any) -> float | None:
    if value == "none":
        return None
    try:
        return parse_duration(str(value))
    except ValueError as error:
        raise ConfigError(f"{path}: {key}: {error}") from error


def _read_as(parse: Callable[[str], int], path: Path, key: str, value: Any) -> int:
    try:
        return parse(str(value))
    except ValueError as error:
        raise ConfigError(f"{path}: {key}: {error}") from error

"""Settings: what a user writes once instead of typing it each time.

Comes in: `codeact.toml` in the workspace, over the user's own in the platform's configuration folder. Goes
out: `Settings`. Every key is checked; a wrong one is an error that names the file and the known keys.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import platformdirs

from codeact_kernel.blocks import parse_duration
from codeact_kernel.errors import ConfigError

FILE_NAME = "codeact.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the settings files say. Durations are seconds."""

    model: str | None = None
    """The model that is asked where neither the command line nor the environment names one."""
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
    max_time: float | None = None
    env: tuple[str, ...] = ()
    """Variables of the host that blocks may see."""
    tools: tuple[str, ...] = ()
    """Modules or files whose functions are tools."""


_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "model": (str, "a text"),
    "protocol": (str, "a text"),
    "models": (dict, "a table"),
    "block_timeout": ((str, int, float), 'a duration such as "30m"'),
    "reminder_tokens": (int, "a whole number"),
    "result_tokens": (int, "a whole number"),
    "max_turns": (int, "a whole number"),
    "max_time": ((str, int, float), 'a duration such as "2h"'),
    "env": (list, "a list of names"),
    "tools": (list, "a list of modules or files"),
}
PROTOCOLS = ("tags", "tools", "json")


def load_settings(workspace: Path, user: Path | None = None) -> Settings:
    """Read the settings files.

    Args:
        workspace: The folder whose `codeact.toml` counts over the user's.
        user: The user's file; None takes the platform's place for it.

    Returns:
        The settings; what no file says has its default.

    Raises:
        ConfigError: If a file is no TOML, or a key or value in it is wrong.
    """
    if user is None:
        user = platformdirs.user_config_path("codeact-kernel") / FILE_NAME
    merged: dict[str, Any] = {}
    for path in (user, workspace / FILE_NAME):
        read = _read(path)
        models = {**merged.get("models", {}), **read.get("models", {})}
        merged |= read
        if models:
            merged["models"] = models
    return Settings(**merged)


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
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ConfigError(f"{path}: {key} is {value!r}; it takes {words}")
    if key in ("block_timeout", "max_time"):
        return _duration(path, key, value)
    if isinstance(value, list):
        if not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{path}: {key} takes {words}")
        return tuple(value)
    if isinstance(value, int) and value <= 0:
        raise ConfigError(f"{path}: {key} must be above zero")
    if key == "protocol" and value not in PROTOCOLS:
        raise ConfigError(f"{path}: protocol is {value!r}; it is one of {', '.join(PROTOCOLS)}")
    return value


def _duration(path: Path, key: str, value: Any) -> float | None:
    if value == "none":
        return None
    try:
        return parse_duration(str(value))
    except ValueError as error:
        raise ConfigError(f"{path}: {key}: {error}") from error

"""Which model is asked, where, and with which key.

Comes in: what the command line names, the environment, and the `[models]` tables of the settings as plain
dicts. Goes out: a `ModelSettings`, complete and checked, from which `open_model` makes a model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from codeact_kernel.errors import ConfigError
from codeact_kernel.messages import ImageLimits
from codeact_kernel.model.address import Key, check_url, read_key
from codeact_kernel.model.catalogue import DEFAULT_MODEL, MODELS
from codeact_kernel.prices import FREE, Prices, read_prices

DEFAULT_ENDPOINT = "https://api.openai.com/v1"
KEY_VARIABLES = ("LLM_API_KEY", "OPENAI_API_KEY")
URL_VARIABLES = ("LLM_BASE_URL", "OPENAI_BASE_URL")
ROLES = ("flash", "strong", "vision")
"""Aliases that a prompt may name without knowing which models the user has."""
LOCAL_WINDOW = 8192
"""Tokens of the embedded model's window. 8192 take 45 MiB more than 4096 with the default model (725 MiB in
all, measured); the model itself would go on to 32768, at 12 KiB a token."""
SILENCE = 300.0
"""Seconds without a byte after which an endpoint counts as gone; reasoning models are silent for minutes."""
LOCAL_SILENCE = 1800.0
"""The same for the embedded model: on one busy core it reads 40 tokens a second or fewer (measured)."""
LOCAL_REPLY = 1024
"""Tokens of the embedded model's longest reply: a small model that has lost its way goes on for good."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model, ready to be opened."""

    name: str
    """As it was asked for: an alias or a model."""
    model: str
    """As its endpoint knows it; the weights of an embedded model; the file of a replay."""
    kind: Literal["endpoint", "local", "replay"] = "endpoint"
    base_url: str = DEFAULT_ENDPOINT
    key: Key | None = None
    key_from: str = " or ".join(KEY_VARIABLES)
    """The environment variables that the key is looked for in, in words."""
    prices: Prices | None = None
    window: int | None = None
    """Tokens; None where it is not known."""
    max_tokens: int | None = None
    """The longest reply in tokens; None leaves it to the endpoint."""
    encoding: str | None = None
    """The tokeniser's name where the model's own name does not tell it ("o200k_base")."""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further fields of the request body."""
    timeout: float = SILENCE
    """Seconds without a byte after which the endpoint counts as gone."""
    images: ImageLimits = field(default_factory=ImageLimits)
    max_concurrent: int | None = None
    """Calls to its endpoint that are under way at once; None for as many as the endpoint takes."""


def resolve(
    name: str | None = None,
    aliases: Mapping[str, Any] | None = None,
    base_url: str | None = None,
    env: Mapping[str, str] | None = None,
    *,
    default: str | None = None,
) -> ModelSettings:
    """Settle which model a run uses.

    The name is the first of `name`, `CODEACT_MODEL` and `default`. The endpoint is the first of `base_url`,
    the alias's own, `LLM_BASE_URL` and `OPENAI_BASE_URL`, else OpenAI's.

    Args:
        name: What `--model` says: an alias, a model, `local`, `local:WEIGHTS` or `replay:FILE`.
        aliases: The `[models]` tables of the settings: by name a model, or a table with `model`, `base_url`,
            `key_env`, `prices`, `window`, `max_tokens`, `encoding`, `extra`, `timeout`, `max_concurrent`, `image_side`,
            `image_pixels`, `image_bytes`, `image_grid`.
        base_url: What `--base-url` says.
        env: The environment; None takes that of the process.
        default: The `model` of the settings.

    Raises:
        ConfigError: If no model is named, or something about it is wrong or missing.
    """
    env = os.environ if env is None else env
    aliases = aliases or {}
    name = _first(name, env.get("CODEACT_MODEL"), default)
    if name is None:
        raise ConfigError(
            "no model is named: give --model, or set CODEACT_MODEL or `model` in codeact.toml"
            " (--model local needs no key)"
        )
    table = _alias_table(name, aliases)
    settings = _from_table(name, table)
    if settings.kind != "endpoint":
        return settings
    url = _first(base_url, settings.base_url, *(env.get(variable) for variable in URL_VARIABLES))
    settings = replace(settings, base_url=check_url(url or DEFAULT_ENDPOINT))
    return _with_key(settings, table.get("key_env"), env)


def resolve_for_agent(
    name: str | None,
    parent: ModelSettings,
    aliases: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> ModelSettings:
    """Settle which model a sub-agent uses: what it does not say, it has from its parent.

    Args:
        name: What `<run_agent model="…">` says; None for the parent's model. A role that the settings do not
            fill (`flash`, `strong`, `vision`) means the parent's model too.
        parent: The parent's model.
        aliases: As in `resolve`.
        env: As in `resolve`.

    Raises:
        ConfigError: As in `resolve`. The model named it, so the agent hands the message back to the model.
    """
    aliases = aliases or {}
    if not name or name == parent.name or (name in ROLES and name not in aliases):
        return parent
    table = _alias_table(name, aliases)
    settings = _from_table(name, table)
    if settings.kind == "endpoint" and parent.kind == "endpoint" and not settings.base_url:
        settings = replace(settings, base_url=parent.base_url, key=parent.key, key_from=parent.key_from)
        environment = os.environ if env is None else env
        return _with_key(settings, table["key_env"], environment) if "key_env" in table else settings
    return resolve(name, aliases, None, env)


def resolve_vision(
    name: str | None,
    parent: ModelSettings | None,
    aliases: Mapping[str, Any] | None = None,
    base_url: str | None = None,
    env: Mapping[str, str] | None = None,
) -> ModelSettings | None:
    """Settle which model is asked about images: what it does not say, it has from the agent's own model.

    Args:
        name: What `--vision-model` says; None for the alias `vision`.
        parent: The agent's model; None where it is not of the settings.
        aliases: As in `resolve`.
        base_url: What `--base-url` says; the endpoint of an alias that names none.
        env: As in `resolve`.

    Returns:
        The model, or None where none is set.

    Raises:
        ConfigError: As in `resolve`, or if it is a model that takes no images.
    """
    aliases = aliases or {}
    name = _first(name) or ("vision" if "vision" in aliases else None)
    if name is None:
        return None
    table = _alias_table(name, aliases)
    if parent is not None and parent.kind == "endpoint":
        settings = resolve_for_agent(name, parent, aliases, env)
    else:
        settings = resolve(name, aliases, None if table.get("base_url") else base_url, env)
    if settings.kind == "local":
        raise ConfigError("the embedded model reads no images: name another vision model")
    return settings


def _first(*values: str | None) -> str | None:
    return next((value.strip() for value in values if value and value.strip()), None)


def _alias_table(name: str, aliases: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table of an alias, or one made up for a model's own name; every field has the right type."""
    value = aliases.get(name)
    if value is None:
        if name in ROLES:
            raise ConfigError(f'the settings say no model for {name!r}: add [models.{name}] with model = "…"')
        return {"model": name}
    where = f"models.{name}"
    if isinstance(value, str):
        value = {"model": value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: write a model's name, or a table with model = …")
    for key, item in value.items():
        kind = _FIELDS.get(key)
        if kind is None:
            raise ConfigError(f"{where}: {key!r} is no field of a model; there are {', '.join(_FIELDS)}")
        if isinstance(item, bool) or not isinstance(item, kind):
            raise ConfigError(f"{where}.{key}: {item!r} is no {_KINDS[kind]}")
        if kind in (int, int | float) and not 0 < item < float("inf"):
            raise ConfigError(f"{where}.{key}: {item!r} must be above zero")
    if not value.get("model", "").strip():
        raise ConfigError(f'{where}: says no model = "…"')
    return value


_FIELDS: dict[str, Any] = {
    "model": str,
    "base_url": str,
    "key_env": str,
    "prices": Mapping,
    "window": int,
    "max_tokens": int,
    "encoding": str,
    "extra": Mapping,
    "timeout": int | float,
    "max_concurrent": int,
    "image_side": int,
    "image_pixels": int,
    "image_bytes": int,
    "image_grid": int,
}
_KINDS: dict[Any, str] = {str: "text", Mapping: "table", int: "whole number", int | float: "number"}


def _from_table(name: str, table: Mapping[str, Any]) -> ModelSettings:
    model = table["model"].strip()
    head, colon, rest = model.partition(":")
    plain = ("window", "max_tokens", "encoding", "extra", "max_concurrent")
    chosen = {key: table[key] for key in plain if key in table}
    limits = {
        key: table[f"image_{key}"] for key in ("side", "pixels", "bytes", "grid") if f"image_{key}" in table
    }
    chosen["images"] = ImageLimits(**limits)
    prices = read_prices(f"models.{name}", table["prices"]) if "prices" in table else None
    timeout = float(table["timeout"]) if "timeout" in table else None
    if head == "replay" and colon:
        return ModelSettings(name, str(Path(rest).expanduser()), "replay", "", prices=FREE)
    if model == "local" or (head == "local" and colon):
        local: dict[str, Any] = {"window": LOCAL_WINDOW, "max_tokens": LOCAL_REPLY} | chosen
        # The same question gets the same answer: temperature 0, and a seed for those who raise it.
        local["extra"] = {"temperature": 0, "seed": 0} | dict(chosen.get("extra", {}))
        weights = _weights(rest or DEFAULT_MODEL)
        return ModelSettings(
            name, weights, "local", "", prices=FREE, timeout=timeout or LOCAL_SILENCE, **local
        )
    return ModelSettings(
        name, model, base_url=table.get("base_url", ""), prices=prices, timeout=timeout or SILENCE, **chosen
    )


def _weights(text: str) -> str:
    if text in MODELS:
        return text
    if text.endswith(".gguf") or os.sep in text:
        return str(Path(text).expanduser())
    raise ConfigError(
        f"there is no embedded model {text!r}: choose {', '.join(MODELS)}, or local:PATH to a .gguf file"
    )


def _with_key(settings: ModelSettings, key_env: str | None, env: Mapping[str, str]) -> ModelSettings:
    variables = (key_env,) if key_env else KEY_VARIABLES
    settings = replace(settings, key_from=" or ".join(variables))
    for variable in variables:
        if key := read_key(variable, env.get(variable, "")):
            return replace(settings, key=key, key_from=variable)
    if key_env:
        raise ConfigError(
            f"the model {settings.name!r} takes its key from {key_env}, which is not set: set it"
        )
    if settings.base_url == DEFAULT_ENDPOINT:
        raise ConfigError(
            f"no API key for {DEFAULT_ENDPOINT}: set {settings.key_from}, "
            "name another endpoint with --base-url, or use the embedded model with --model local"
        )
    return settings

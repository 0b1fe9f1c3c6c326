"""What was chosen on the command line by the options that several commands share, and what an agent is made of from it.

Comes in: what typer read from the command line. Goes out: the fields of an `Agent`, checked as far as only the
command line can check them.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from codeact_kernel.cli import options
from codeact_kernel.errors import ConfigError

if TYPE_CHECKING:
    from codeact_kernel.protocols import Observer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Choices:
    """What was chosen on the command line; None is what was not."""

    model: options.Model = None
    then: options.Then = None
    base_url: options.BaseUrl = None
    protocol: options.Protocol = None
    workspace: options.Workspace = "."
    run_dir: options.RunDir = None
    max_turns: options.MaxTurns = None
    max_time: options.MaxTime = None
    max_tokens: options.MaxTokens = None
    max_cost: options.MaxCost = None
    max_memory: options.MaxMemory = None
    tools: options.Tools = None
    mcp: options.Mcp = None
    dry_run: options.DryRun = False
    max_calls: options.MaxCalls = None
    approve: options.Approve = None
    trust_workspace: options.TrustWorkspace = False
    sandbox: options.Sandbox = None
    sandbox_min: options.SandboxMin = None
    allow_net: options.AllowNet = False
    allow_host: options.AllowHost = None
    allow_read: options.AllowRead = None
    kernel: options.Kernel = None
    python: options.Python = None
    env: options.Env = None
    vision_model: options.VisionModel = None
    fallback_model: options.FallbackModel = None
    patience: options.Patience = None
    lease: options.Lease = None
    otel: options.Otel = False

    def said(self) -> dict[str, Any]:
        """What is not as it is where nothing is said, by name."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}

    def agent_fields(self) -> dict[str, Any]:
        """The fields of an `Agent`, the settings among them, so that they are read once.

        Raises:
            ConfigError: If tools cannot be loaded, a variable is not set, or the settings are wrong.
        """
        from codeact_kernel.cli.screens import Screen, somebody_is_there
        from codeact_kernel.cli.trusting import read_settings
        from codeact_kernel.tools import load_tools

        settings = read_settings(Path(self.workspace).expanduser(), self.trust_workspace)
        env = [*map(_variable, self.env or ())]
        seen = (*settings.env, *env)
        with _importable_from_here():
            tools = [
                tool
                for source in self.tools or ()
                for tool in load_tools(source, self.workspace, seen, settings.search)
            ]
        return {
            "model": self.model,
            "then": self.then,
            "base_url": self.base_url,
            "protocol": self.protocol,
            "workspace": self.workspace,
            "run_dir": self.run_dir,
            "tools": tools,
            "kernel": self.kernel,
            "python": self.python,
            "vision": self.vision_model,
            "fallback": self.fallback_model,
            "patience": read_duration("--patience", self.patience),
            "lease": self.lease,
            "mcp": self.mcp,
            "dry_run": self.dry_run,
            "max_calls": self.max_calls,
            "approve": self.approve,
            "sandbox": self.sandbox,
            "sandbox_min": self.sandbox_min,
            "allow_net": self.allow_net,
            "allow_hosts": tuple(self.allow_host or ()),
            "allow_read": tuple(self.allow_read or ()),
            "max_turns": self.max_turns,
            "max_time": read_duration("--max-time", self.max_time),
            "max_tokens": read_count("--max-tokens", self.max_tokens),
            "max_cost": self.max_cost,
            "max_memory": read_size("--max-memory", self.max_memory),
            "env": env,
            "settings": settings,
            "kept": {"tools": self.tools},
            "observers": [_tracing()] if self.otel else [],
            "person": Screen().person if somebody_is_there() else None,
        }


def choosing(*left_out: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Gives a command the options of `Choices` in the place of its argument `chosen`.

    Args:
        *left_out: Options that it does not have; nor has it twice what is an argument of its own.
    """

    def made(command: Callable[..., int]) -> Callable[..., int]:
        own = inspect.signature(command, eval_str=True).parameters
        types = get_type_hints(Choices, include_extras=True)
        shared = [
            inspect.Parameter(
                f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name]
            )
            for f in fields(Choices)
            if f.name not in own and f.name not in left_out
        ]
        names = {parameter.name for parameter in shared}

        @functools.wraps(command)
        def taking(**given: Any) -> int:
            chosen = Choices(**{name: given.pop(name) for name in names})
            return command(**given, chosen=chosen)

        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for mine in own.values()
            for parameter in (shared if mine.name == "chosen" else [mine])
        ]
        taking.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
        taking.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return taking

    return made


def _tracing() -> Observer:
    import importlib.util

    if not all(importlib.util.find_spec(name) for name in ("opentelemetry", "opentelemetry.sdk")):
        raise ConfigError('--otel needs the extra: pip install "codeact-kernel[otel]"')
    from codeact_kernel.otel.environment import from_environment

    return from_environment()


def read_duration(option: str, text: str | None) -> float | None:
    """Read an option that is a duration.

    Args:
        option: Its name, for the error.
        text: What was written.

    Returns:
        Seconds, or None where nothing was.

    Raises:
        ConfigError: If it is no duration.
    """
    from codeact_kernel.blocks import parse_duration

    return _read(option, text, parse_duration)


def read_size(option: str, text: str | None) -> int | None:
    """Read an option that is a size of memory: bytes; as `read_duration`."""
    from codeact_kernel.sizes import parse_size

    return _read(option, text, parse_size)


def read_count(option: str, text: str | None) -> int | None:
    """Read an option that is a number of tokens; as `read_duration`."""
    from codeact_kernel.sizes import parse_count

    return _read(option, text, parse_count)


def _read(option: str, text: str | None, parse: Callable[[str], T]) -> T | None:
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from error


@contextmanager
def _importable_from_here() -> Iterator[None]:
    """Let `--tools my_tools` mean my_tools.py of the current folder, behind all that is installed.

    Only while tools are loaded: blocks may write into that folder, and what this process imports later, an optional
    library say, must not come from there.
    """
    here = os.getcwd()  # noqa: PTH109 - the module search path holds texts
    if here in sys.path or "" in sys.path:
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _variable(name: str) -> str:
    if "=" in name:
        raise ConfigError(
            f"--env {name.partition('=')[0]}: give only the name; blocks see the value that it has here"
        )
    if name not in os.environ:
        raise ConfigError(f"--env {name}: there is no such variable here")
    return name

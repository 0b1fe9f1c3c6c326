"""The options that several commands share, and what an agent is made of from them.

Comes in: what typer read from the command line. Goes out: the fields of an `Agent`, checked as far as only the
command line can check them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import typer

from codeact_kernel.errors import ConfigError

if TYPE_CHECKING:
    from codeact_kernel.protocols import Observer

T = TypeVar("T")

Model = Annotated[
    str | None,
    typer.Option(
        metavar="M",
        help="The model: a name that the endpoint knows, an alias of the settings, `local` (embedded, needs no "
        "key), or `replay:FILE`. Else CODEACT_MODEL, else the settings.",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The endpoint, any that speaks OpenAI's API. Else LLM_BASE_URL or OPENAI_BASE_URL, else OpenAI's.",
    ),
]
Protocol = Annotated[
    str | None,
    typer.Option(
        metavar="tags|tools|json",
        help="How the model writes blocks: as tags in its text, as tool calls, or as JSON. Else the settings, "
        "else tags.",
    ),
]
Workspace = Annotated[
    str, typer.Option(metavar="DIR", help="The folder in which blocks run, instead of the current one.")
]
RunDir = Annotated[
    str | None,
    typer.Option(
        metavar="DIR", help="Where the record goes, instead of a new folder in the workspace's .codeact/runs."
    ),
]
MaxTurns = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="How many replies may be given. As all limits: sub-agents included."
    ),
]
MaxTime = Annotated[
    str | None, typer.Option(metavar="D", help="How long it may take: 90s, 10m, 2h, or a number of seconds.")
]
MaxTokens = Annotated[
    str | None,
    typer.Option(
        metavar="N", help="How many tokens it may use, prompts and replies together: 200k, 2M, or a number."
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        metavar="USD", help="What it may cost, in US dollars; the settings have to say the model's prices."
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="How much memory the kernel's processes may hold, 500MB or 4GB: past it they are ended. Else the "
        "settings, else in a sandbox nine tenths of what there is.",
    ),
]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE_OR_FILE",
        help="A Python module, or a .py file, whose public functions blocks can call; the name that an installed "
        "package gives its tools; or `builtin`, or some of those: `builtin:files,search,commands,web`. May be given "
        "more than once.",
    ),
]
Mcp = Annotated[
    str | None,
    typer.Option(
        "--mcp",
        metavar="FILE",
        help="A JSON file with `mcpServers`, whose tools blocks can call as mcp.SERVER.TOOL(…). A server is started "
        "when one of its tools is first needed.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Call no tool that writes: the blocks print what they would have called, and get None.",
    ),
]
MaxCalls = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, help="How many calls of tools the blocks may make. Else the settings, else any."
    ),
]
Kernel = Annotated[
    str | None, typer.Option(metavar="NAME", help="A Jupyter kernel, whose interpreter runs the blocks.")
]
Python = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="A Python interpreter (with ipykernel) that runs the blocks."),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A variable of this environment that blocks may see; keys and the like are hidden from them. May be "
        "given more than once.",
    ),
]
Sandbox = Annotated[
    str | None,
    typer.Option(
        metavar="auto|none|limits|landlock|bwrap",
        help="What blocks are walled in by: `auto` is the strongest that works here. One that is named and cannot be "
        "had is an error. Else the settings, else auto.",
    ),
]
SandboxMin = Annotated[
    str | None,
    typer.Option(metavar="MODE", help="What `--sandbox auto` must at least come to, or nothing runs."),
]
AllowNet = Annotated[bool, typer.Option("--allow-net", help="Let blocks use the network.")]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="H",
        help="A host that blocks may reach over HTTP and HTTPS, while the rest of the network stays closed; "
        "`*.example.org` means those below it. May be given more than once.",
    ),
]
AllowRead = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="A folder or file outside of the workspace that blocks may read. May be given more than once.",
    ),
]
VisionModel = Annotated[
    str | None,
    typer.Option(
        metavar="M",
        help="The model that blocks can ask about images and PDFs: a name or an alias. Else the alias `vision` of "
        "the settings, else none.",
    ),
]

FallbackModel = Annotated[
    str | None,
    typer.Option(
        metavar="M",
        help="The model that answers while the first cannot be reached, limits the rate or refuses: a name or an "
        "alias. Else the settings, else none.",
    ),
]
Patience = Annotated[
    str | None,
    typer.Option(
        metavar="D",
        help="How long a model that does not answer is tried again, before the run stops, to be resumed: 5m, 2h. Else "
        "the settings, else 5m.",
    ),
]

Approve = Annotated[
    str | None,
    typer.Option(
        metavar="auto|ask|deny-writes|rules",
        help="What is asked before it happens: nothing; each block, and each call that changes something or uses the "
        "network; nothing, and calls that change something are denied; or all that no rule of the settings allows. "
        "Where nobody can be asked it is denied. Else the settings, else auto.",
    ),
]
Otel = Annotated[
    bool,
    typer.Option(
        "--otel",
        help="Send traces over OpenTelemetry, to where the OTEL_* variables say; without "
        "content, unless they ask for it.",
    ),
]
TrustWorkspace = Annotated[
    bool,
    typer.Option(
        "--trust-workspace",
        help="Let the workspace's codeact.toml say everything this time: load tools, name models and see variables.",
    ),
]


@dataclass(frozen=True, slots=True)
class Choices:
    """What was chosen on the command line; None is what was not."""

    model: str | None = None
    base_url: str | None = None
    protocol: str | None = None
    workspace: str = "."
    run_dir: str | None = None
    tools: list[str] | None = None
    kernel: str | None = None
    python: str | None = None
    env: list[str] | None = None
    max_turns: int | None = None
    max_time: str | None = None
    max_tokens: str | None = None
    max_cost: float | None = None
    max_memory: str | None = None
    vision_model: str | None = None
    fallback_model: str | None = None
    patience: str | None = None
    mcp: str | None = None
    dry_run: bool = False
    max_calls: int | None = None
    approve: str | None = None
    trust_workspace: bool = False
    sandbox: str | None = None
    sandbox_min: str | None = None
    allow_net: bool = False
    allow_host: list[str] | None = None
    allow_read: list[str] | None = None
    otel: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Take what is chosen here from a command's options, all of them: none can be forgotten.

        Args:
            options: By name; others may be among them.
        """
        return cls(**{f.name: options[f.name] for f in fields(cls) if f.name in options})

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

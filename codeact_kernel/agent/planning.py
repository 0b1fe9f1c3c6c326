"""What is settled before anything is started.

Comes in: options. Goes out: a `Plan`, checked as far as that can be done without starting anything.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from codeact_kernel.agent.answer import AnswerType
from codeact_kernel.agent.config import PROTOCOLS, Settings, load_settings
from codeact_kernel.agent.discretion import named_keys
from codeact_kernel.agent.elicitation import elicitor
from codeact_kernel.agent.gating import wanted_mode
from codeact_kernel.agent.limiting import lease_of, limits_of
from codeact_kernel.agent.options import Options, Person
from codeact_kernel.agent.seeing import blindness
from codeact_kernel.errors import ConfigError
from codeact_kernel.kernels import SandboxSettings
from codeact_kernel.masking import Mask
from codeact_kernel.policy import Limits
from codeact_kernel.runfiles import Folder
from codeact_kernel.sizes import parse_size
from codeact_kernel.tools import Tool, Toolset, Vision, as_tools, load_tools, notify, tool


@dataclass(frozen=True, slots=True)
class Plan:
    """What is settled."""

    settings: Settings
    protocol: str
    workspace: Path
    tools: dict[str, Tool]
    sets: tuple[Toolset, ...]
    answer_type: AnswerType | None
    max_memory: int | None
    lease: float
    """Seconds for which the kernel outlives a host that was killed."""
    limits: Limits
    """What each run may use."""
    sandbox: SandboxSettings
    blind: str
    """Why blocks cannot ask about images; empty where they can."""

    @property
    def told(self) -> list[Tool]:
        """The tools that the prompt tells of."""
        return [*self.tools.values(), *([] if self.blind else [Vision().tool])]


def plan(
    options: Options, logs: Callable[[], Folder | None] = lambda: None, mask: Mask | None = None
) -> Plan:
    """Settle and check what can be checked without starting anything.

    Args:
        options: What the caller wants.
        logs: Gives the folder for what MCP servers say on stderr; None keeps the last lines of it only.
        mask: Learns the secrets that settings and servers have.

    Raises:
        ConfigError: If something of it is wrong.
    """
    workspace = Path(options.workspace).expanduser()
    if not workspace.is_dir():
        raise ConfigError(f"the workspace {workspace} is no folder")
    settings = options.settings
    if settings is None:
        settings = load_settings(workspace, trusted=options.trust_workspace)
    wanted_mode(options, settings)
    mask = Mask() if mask is None else mask
    mask.learn(named_keys({"models": settings.models, "search": settings.search}))
    protocol = options.protocol or settings.protocol
    if protocol not in PROTOCOLS:
        raise ConfigError(f"{protocol!r} is no protocol; it is one of {', '.join(PROTOCOLS)}")
    functions = [tool for tool in options.tools if not isinstance(tool, Toolset)]
    sets = (
        *(tool for tool in options.tools if isinstance(tool, Toolset)),
        *_servers(options, settings, workspace, logs, mask),
    )
    for source in settings.tools:
        path = source if not source.endswith(".py") else str(workspace / source)
        functions += load_tools(path, workspace, (*settings.env, *options.env), settings.search)
    if options.person is not None:
        functions.append(_ask_person(options.person, mask))
    answer_type = AnswerType(options.output_type) if options.output_type is not None else None
    tools, max_memory = as_tools(functions), _max_memory(options, settings)
    blind = blindness(options, settings)
    wanted = Plan(
        settings,
        protocol,
        workspace.resolve(),
        tools,
        sets,
        answer_type,
        max_memory,
        lease_of(options, settings),
        limits_of(options, settings),
        _sandbox(options, settings),
        blind,
    )
    as_tools(wanted.told)  # no tool may have the name of one of ours
    return wanted


def _servers(
    options: Options, settings: Settings, workspace: Path, logs: Callable[[], Folder | None], mask: Mask
) -> list[Toolset]:
    """The MCP servers; none is started."""
    sources = [options.mcp, workspace / settings.mcp if settings.mcp else None]
    if not any(sources):
        return []
    from codeact_kernel.tools.mcp import open_servers  # the SDK is loaded for those who use it

    elicit = None if options.person is None else elicitor(options.person)
    return [
        server
        for source in sources
        if source
        for server in open_servers(
            source, workspace=workspace, logs=logs, notice=notify, elicit=elicit, mask=mask
        )
    ]


def _sandbox(options: Options, settings: Settings) -> SandboxSettings:
    return SandboxSettings(
        options.sandbox or settings.sandbox,
        options.sandbox_min or settings.sandbox_min,
        options.allow_net or settings.allow_net,
        (*settings.allow_hosts, *options.allow_hosts),
        tuple(Path(path).expanduser().resolve() for path in (*settings.allow_read, *options.allow_read)),
        max_file=settings.max_file,
        max_growth=settings.max_growth,
    )


def _max_memory(options: Options, settings: Settings) -> int | None:
    if options.max_memory is None:
        return settings.max_memory
    try:
        return parse_size(str(options.max_memory))
    except ValueError as error:
        raise ConfigError(f"max_memory: {error}") from error


def _ask_person(person: Person, mask: Mask) -> Tool:
    async def ask_person(question: str) -> str:
        """Ask the person you work for, and wait for the answer."""
        question = mask.text(question)
        if inspect.iscoroutinefunction(person):
            return str(await person(question))
        return str(await asyncio.to_thread(person, question))

    return tool(ask_person, kind="read")  # type: ignore[no-any-return]

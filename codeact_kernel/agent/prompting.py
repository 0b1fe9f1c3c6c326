"""What the system prompt of a run is told about the run.

Comes in: tools, seeded values, the kernel. Goes out: the `Surroundings` that the prompt is written from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from codeact_kernel.agent.disclosure import Disclosed, disclose
from codeact_kernel.agent.kin import Kin
from codeact_kernel.agent.limiting import for_prompt
from codeact_kernel.agent.options import Options
from codeact_kernel.agent.planning import Plan
from codeact_kernel.dialogue import Surroundings, system_prompt
from codeact_kernel.inkernel import wire


class Described(Protocol):
    """A kernel as far as the prompt tells of it: one that runs, or one that could be started."""

    @property
    def description(self) -> str:
        """What it is, in words."""

    @property
    def ours(self) -> bool:
        """Whether it runs blocks side by side."""


def write_prompt(
    options: Options,
    wanted: Plan,
    kernel: Described,
    kin: Kin | None = None,
    walls: str = "",
) -> str | None:
    """Write the system prompt of an agent.

    Args:
        options: What the caller wants.
        wanted: What was settled.
        kernel: The kernel, or how it would be started (`kernels.choose`).
        kin: Its place among others; None for a root's.
        walls: What its code cannot do (`kernels.sandbox_for_model`); empty for nothing to say.

    Returns:
        The prompt, or None where the caller wants none.
    """
    if options.system is False:
        return None
    more = wanted.answer_type.instruction if wanted.answer_type else ""
    if isinstance(options.system, str):
        return "\n\n".join(filter(None, [options.system, more]))
    names = {name: wire.describe(value) for name, value in options.namespace.items()}
    depth = 0 if kin is None else kin.depth
    around = surroundings(
        disclosed=disclose(wanted.told, wanted.sets, wanted.settings.tools_tokens)
        if kernel.ours
        else ((), ()),
        names=names | dict(kin.names if kin else {}),
        kernel=kernel.description,
        ours=kernel.ours,
        workspace=wanted.workspace,
        timeout=wanted.settings.block_timeout,
        agents=kernel.ours and depth < wanted.settings.max_agent_depth,
        is_sub=depth > 0,
        walls=walls,
        limits=for_prompt(wanted.limits) if kernel.ours else "",
        more=more,
    )
    return system_prompt(around, wanted.protocol)  # type: ignore[arg-type]


def surroundings(
    *,
    disclosed: Disclosed,
    names: Mapping[str, str],
    kernel: str,
    ours: bool,
    workspace: Path,
    timeout: float | None,
    agents: bool,
    is_sub: bool,
    walls: str,
    limits: str,
    more: str,
) -> Surroundings:
    """Gather what the prompt says of a run.

    Args:
        disclosed: The functions that blocks can call, and groups of them.
        names: What is seeded, in words by name.
        kernel: The kernel, in words.
        ours: Whether it is our kernel, which runs blocks side by side.
        workspace: The folder in which blocks run.
        timeout: Seconds for a block that names no timeout; None for no limit.
        agents: Whether sub-agents can be started.
        is_sub: Whether another agent has started it.
        walls: What its code cannot do; empty for nothing to say.
        limits: What the run may use; empty for nothing to say.
        more: What is added at the end.
    """
    return Surroundings(
        kernel=kernel,
        directory=str(workspace),
        functions=disclosed[0],
        groups=disclosed[1],
        names=tuple(names.items()),
        own_kernel=ours,
        timeout=timeout,
        agents=agents,
        is_sub=is_sub,
        walls=walls,
        limits=limits,
        more=more,
    )

"""Where an agent's kernels live: the interpreter, and the sandbox round it.

Comes in: options and what was settled of them. Goes out: how a kernel is started, and the run's sandbox.
"""

from __future__ import annotations

import ctypes
import os
import sys

from codeact_kernel.agent.options import Options
from codeact_kernel.agent.planning import Plan
from codeact_kernel.environment import kernel_environment
from codeact_kernel.kernels import Launch, Sandbox, choose, choose_sandbox

_SET_DUMPABLE = 4
"""PR_SET_DUMPABLE of prctl(2)."""


async def house(options: Options, wanted: Plan) -> tuple[Launch, Sandbox | None]:
    """Choose the interpreter and the sandbox of a run.

    Args:
        options: What the caller wants.
        wanted: What of it is settled.

    Returns:
        How its kernels are started, and what they are walled in by; None for nothing.

    Raises:
        ConfigError: If what is asked for cannot be had.
    """
    launch = await choose(options.kernel, options.python)
    env = kernel_environment(os.environ, (*wanted.settings.env, *options.env), launch.env)
    sandbox = await choose_sandbox(wanted.sandbox, launch, wanted.workspace, env)
    if sandbox is not None:
        hide()
    return launch, sandbox


def hide() -> None:
    """Close this process to others of the same user.

    Its environment and memory hold keys. Of a process that is "not dumpable" (prctl(2)) only root can read them under
    /proc, and nobody else can trace it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)

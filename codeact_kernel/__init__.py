"""An agent that acts by writing Python into a real IPython kernel.

The names below are loaded when they are first used, so that a kernel process, which imports this package for
its `inkernel` room, never loads a model library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codeact_kernel._version import __version__

if TYPE_CHECKING:
    from codeact_kernel.agent import Agent as Agent
    from codeact_kernel.agent import Run as Run
    from codeact_kernel.kernels import keep_warm as keep_warm

__all__ = ["Agent", "Run", "__version__", "keep_warm"]


def __getattr__(name: str) -> Any:
    if name in ("Agent", "Run"):
        from codeact_kernel import agent

        return getattr(agent, name)
    if name == "keep_warm":
        from codeact_kernel.kernels import keep_warm

        return keep_warm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext codeact_kernel`: gives a shell `%agent`.

    Args:
        shell: IPython's shell.
    """
    from codeact_kernel.inkernel.magic import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext codeact_kernel`: takes it away, and ends the notebook's agents.

    Args:
        shell: IPython's shell.
    """
    from codeact_kernel.inkernel.magic import unload

    unload(shell)

"""`%agent` in a person's kernel, ours or any other IPython.

Comes in: lines and cells of a person. Goes out: requests to the host, which this starts; what the host says, shown.
Only the standard library and IPython are needed here: keys, models and agents are the host's.
"""

from __future__ import annotations

from typing import Any


def load(shell: Any) -> None:
    """Give a shell the magics `%agent`, `%%agent` and `%agents`.

    Args:
        shell: IPython's shell.
    """
    from codeact_kernel.inkernel.magic.agent import install

    install(shell)


def unload(shell: Any) -> None:
    """Take them away again, and end the host.

    Args:
        shell: IPython's shell.
    """
    from codeact_kernel.inkernel.magic.agent import remove

    remove(shell)

"""The namespace of the kernel as the agent and its host see it.

Comes in: the shell; pickled values from the host. Goes out: the names that a person would call variables, and
values bound to names.
"""

from __future__ import annotations

import builtins
import importlib.util
import pickle
from typing import Any

from codeact_kernel.inkernel.adopt import adopt

_MOST = 1000
"""How many names a list of names holds at most."""


def visible_names(shell: Any) -> list[str]:
    """The names that the user or a block made.

    Args:
        shell: IPython's shell.

    Returns:
        Names in order of their making, at most a thousand; none that IPython or this package put there.
    """
    # Other blocks go on making names: a list of keys is made in one step, a list of items is not.
    values, hidden = shell.user_ns, shell.user_ns_hidden
    names = [name for name in list(values) if not name.startswith("_")]
    return [name for name in names if hidden.get(name, hidden) is not values.get(name)][:_MOST]


def knows(shell: Any, name: str) -> bool:
    """Whether a name can be read in a block.

    Args:
        shell: IPython's shell.
        name: The name.
    """
    return name in shell.user_ns or hasattr(builtins, name)


def seed(shell: Any, values: dict[str, bytes], cloudpickle: str) -> dict[str, str]:
    """Bind values that the host has pickled.

    Args:
        shell: IPython's shell.
        values: The pickle of each name's value.
        cloudpickle: The folder of the host's cloudpickle, for an interpreter that has none.

    Returns:
        For each name that could not be bound, why.
    """
    ensure_cloudpickle(cloudpickle)
    failed = {}
    for name, data in values.items():
        try:
            shell.user_ns[name] = pickle.loads(data)
        except Exception as exception:
            failed[name] = f"{type(exception).__name__}: {exception}"
    return failed


def ensure_cloudpickle(folder: str) -> None:
    """Make cloudpickle importable in an interpreter that has none.

    Args:
        folder: The folder of the host's.
    """
    if importlib.util.find_spec("cloudpickle") is None:
        adopt("cloudpickle", folder)


def hide(shell: Any, names: dict[str, Any]) -> None:
    """Bind names that are ours, so that they do not count as the user's.

    Args:
        shell: IPython's shell.
        names: The names and their values.
    """
    shell.user_ns.update(names)
    shell.user_ns_hidden.update(names)

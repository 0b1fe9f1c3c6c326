"""Values on their way into a kernel's namespace.

Comes in: values by name. Goes out: their pickles. Functions and classes travel by value (cloudpickle) to a
kernel of the host's own Python version; to another version only data can go.
"""

from __future__ import annotations

import pickle
import sys
import types
from typing import Any

import cloudpickle

from codeact_kernel.errors import ConfigError


def pickle_values(values: dict[str, Any], python: tuple[int, ...] = ()) -> dict[str, bytes]:
    """Pickle values for a kernel.

    Args:
        values: The values by name.
        python: The version of the kernel's Python; empty means the host's own.

    Returns:
        The pickles by name.

    Raises:
        ConfigError: If one cannot be passed; says which and why.
    """
    same = not python or python[:2] == tuple(sys.version_info[:2])
    pickled = {}
    for name, value in values.items():
        if not name.isidentifier():
            raise ConfigError(f"{name!r} cannot be a name in the namespace: it is no identifier")
        if not same and isinstance(value, types.FunctionType | type | types.ModuleType):
            theirs, ours = ".".join(map(str, python[:2])), ".".join(map(str, sys.version_info[:2]))
            raise ConfigError(
                f"{name} is code, and the kernel runs Python {theirs} while this process runs {ours}: "
                "between versions only data can be passed"
            )
        try:
            dump = cloudpickle.dumps if same else pickle.dumps
            pickled[name] = dump(value, protocol=5)
        except Exception as exception:
            raise ConfigError(
                f"{name} ({type(value).__module__}.{type(value).__qualname__}) cannot be passed to the kernel: "
                f"{type(exception).__name__}: {exception}"
            ) from exception
    return pickled

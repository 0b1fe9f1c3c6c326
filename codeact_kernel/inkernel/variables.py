"""What the names of the namespace hold, told without running anybody's code.

Comes in: the shell. Goes out: of each name a type, a size and a short value, as texts. No `__repr__` or `__len__` of a
user's class is called: it might take minutes, print, or wait for a lock that a block holds.
"""

from __future__ import annotations

import reprlib
from contextlib import suppress
from types import ModuleType
from typing import Any

from codeact_kernel.inkernel.namespace import visible_names

_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset, range)
_SHAPED = (
    "cupy",
    "jax",
    "jaxlib",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "scipy",
    "tensorflow",
    "torch",
    "xarray",
)
"""Libraries whose `shape` is there at once."""
_PLAIN = (bool, float, complex, range, type(None))
_CHARACTERS = 60


class _Short(reprlib.Repr):
    """Shortens values of Python's own types, and only names the others."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxlong = _CHARACTERS
        self.maxlevel = 3

    def repr_instance(self, x: Any, level: int) -> str:
        """What stands for a value of another type."""
        return repr(x) if type(x) in _PLAIN else f"<{type(x).__name__}>"


_SHORT = _Short()


def variables(shell: Any) -> list[dict[str, str]]:
    """Tell what the names hold that the user or a block made.

    Args:
        shell: IPython's shell.

    Returns:
        For each name {"name", "type", "size", "value"}; empty texts for what is not known.
    """
    values = shell.user_ns
    return [_told(name, values[name]) for name in visible_names(shell) if name in values]


def _told(name: str, value: Any) -> dict[str, str]:
    told = {"name": name, "type": type(value).__name__, "size": "", "value": ""}
    with suppress(Exception):  # a block may change it meanwhile
        told["size"], told["value"] = _size(value), _value(value)
    return told


def _size(value: Any) -> str:
    if type(value) in _SIZED:
        return str(len(value))
    if type(value).__module__.partition(".")[0] in _SHAPED:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple):
            return "x".join(map(str, shape))
    return ""


def _value(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    if type(value) in (*_SIZED, *_PLAIN, int):
        return " ".join(_SHORT.repr(value).split())[: 2 * _CHARACTERS]
    return ""

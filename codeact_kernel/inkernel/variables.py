"""What the names of the namespace hold, told without running anybody's code.

Comes in: the shell. Goes out: of each name a type, a size and a short value, as texts. No `__repr__` or `__len__` of a
user's class is called: it might take minutes, print, or wait for a lock that a block holds.
"""

from __future__ import annotations

import reprlib
import sys
from contextlib import suppress
from itertools import islice
from types import ModuleType
from typing import Any

from codeact_kernel.inkernel.namespace import visible_names

_HOLDING = (list, tuple, dict, set, frozenset)
_SIZED = (str, bytes, bytearray, *_HOLDING, range)
_MEMBERS = 100
"""Members of a list, say, whose bytes are looked at; the others are taken to be like them."""
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

    def repr1(self, x: Any, level: int) -> str:
        """What stands for a value; reprlib goes by the name of its type, which a user's class may share."""
        return super().repr1(x, level) if type(x) in (*_SIZED, int) else self.repr_instance(x, level)

    def repr_instance(self, x: Any, level: int) -> str:
        """What stands for a value of another type."""
        return repr(x) if type(x) in _PLAIN else f"<{type(x).__name__}>"


_SHORT = _Short()


def variables(shell: Any) -> list[dict[str, str]]:
    """Tell what the names hold that the user or a block made.

    Args:
        shell: IPython's shell.

    Returns:
        For each name {"name", "type", "size", "bytes", "value"}; empty texts for what is not known.
    """
    values = shell.user_ns
    return [_told(name, values[name]) for name in visible_names(shell) if name in values]


def _told(name: str, value: Any) -> dict[str, str]:
    told = {"name": name, "type": type(value).__name__, "size": "", "bytes": "", "value": ""}
    with suppress(Exception):  # a block may change it meanwhile
        told["size"], told["value"] = _size(value), _value(value)
        told["bytes"] = str(_bytes(value) or "")
    return told


def _size(value: Any) -> str:
    if type(value) in _SIZED:
        return str(len(value))
    if _library(value) in _SHAPED:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple):
            return "x".join(map(str, shape))
    return ""


def _bytes(value: Any) -> int:
    """About how many bytes a value takes, with the members of a container; 0 where that is not known."""
    if type(value) not in _HOLDING:
        return _own_bytes(value)
    members = list(islice(value.values() if type(value) is dict else value, _MEMBERS))
    held = sum(map(_own_bytes, members))
    return sys.getsizeof(value) + held * len(value) // max(1, len(members))


def _own_bytes(value: Any) -> int:
    if type(value) in (*_SIZED, *_PLAIN, int):
        return sys.getsizeof(value)
    library = _library(value)
    if library == "pandas" and hasattr(value, "memory_usage"):
        used = value.memory_usage(deep=False)
        return int(used if isinstance(used, int) else used.sum())
    if library not in _SHAPED:
        return 0
    size = value.estimated_size() if library == "polars" else getattr(value, "nbytes", 0)
    return size if isinstance(size, int) else 0


def _library(value: Any) -> str:
    return str(type(value).__module__).partition(".")[0]


def _value(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    if type(value) in (*_SIZED, *_PLAIN, int):
        return " ".join(_SHORT.repr(value).split())[: 2 * _CHARACTERS]
    return ""

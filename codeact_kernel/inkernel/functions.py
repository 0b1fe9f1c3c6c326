"""What functions of a namespace are made of, and how they are made where they arrive.

Comes in: functions and their cells. Goes out: what pickles of them hold, and the same functions again, with another
namespace for their globals. A cell is an object of its own, so closures that share a variable go on sharing it.
"""

from __future__ import annotations

import dis
import threading
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType
from typing import Any

_STATE = (
    "__defaults__",
    "__kwdefaults__",
    "__dict__",
    "__doc__",
    "__annotations__",
    "__module__",
    "__qualname__",
)
"""What a function has besides its code, its globals and its cells."""

arriving = threading.local()
"""`place`: where what is being read in this thread arrives; its `namespace` is what functions get."""


def reads(code: CodeType) -> Iterator[str]:
    """The global names that code reads, that of the functions inside of it included.

    Args:
        code: The code.
    """
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from reads(constant)


def parts_of(function: FunctionType) -> tuple[Any, ...]:
    """What `Pickler.reducer_override` returns for a function."""
    state = {name: getattr(function, name) for name in _STATE}
    made_of = function.__code__, function.__name__, function.__closure__
    return _make_function, made_of, state, None, None, _fill_function


def _make_function(code: CodeType, name: str, closure: tuple[CellType, ...] | None) -> FunctionType:
    return FunctionType(code, arriving.place.namespace, name, None, closure)


def _fill_function(function: FunctionType, state: dict[str, Any]) -> None:
    for name, value in state.items():
        if name == "__dict__":
            function.__dict__.update(value)
        else:
            setattr(function, name, value)


def _content_of(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _make_cell() -> CellType:
    return CellType()


def _fill_cell(cell: CellType, content: tuple[Any, ...]) -> None:
    for value in content:
        cell.cell_contents = value


def parts_of_cell(cell: CellType) -> tuple[Any, ...]:
    """What `Pickler.reducer_override` returns for a cell: it is made empty, since it may hold its own function."""
    return _make_cell, (), _content_of(cell), None, None, _fill_cell

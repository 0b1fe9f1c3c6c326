"""What the system prompt of a run is told about the run.

Comes in: tools, seeded values, the kernel. Goes out: the `Surroundings` that the prompt is written from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from codeact_kernel.dialogue import FunctionLine, Surroundings
from codeact_kernel.tools import Tool


def function_lines(tools: Iterable[Tool]) -> tuple[FunctionLine, ...]:
    """One line a tool.

    Args:
        tools: The tools.
    """
    return tuple(FunctionLine(f"{t.name}{t.signature}", t.summary, t.is_async) for t in tools)


def describe(value: Any) -> str:
    """Say what a value is, without its content.

    Args:
        value: Any value.

    Returns:
        Its type, and its shape, columns or length where it has some.
    """
    kind = type(value)
    name = (
        kind.__name__
        if kind.__module__ == "builtins"
        else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    )
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and all(isinstance(n, int) for n in shape):
        columns = getattr(value, "columns", None)
        listed = f", columns {', '.join(map(str, list(columns)[:20]))}" if columns is not None else ""
        return f"{name} of shape {shape}{listed}"
    if isinstance(value, str | bytes | list | tuple | dict | set | frozenset):
        return f"{name} of length {len(value)}"
    return name


def surroundings(
    *,
    tools: Iterable[Tool],
    names: Mapping[str, Any],
    kernel: str,
    ours: bool,
    workspace: Path,
    timeout: float | None,
    more: str,
) -> Surroundings:
    """Gather what the prompt says of a run.

    Args:
        tools: The functions that blocks can call.
        names: The seeded values by name.
        kernel: The kernel, in words.
        ours: Whether it is our kernel, which runs blocks side by side.
        workspace: The folder in which blocks run.
        timeout: Seconds for a block that names no timeout; None for no limit.
        more: What is added at the end.
    """
    return Surroundings(
        kernel=kernel,
        directory=str(workspace),
        functions=function_lines(tools),
        names=tuple((name, describe(value)) for name, value in names.items()),
        own_kernel=ours,
        timeout=timeout,
        more=more,
    )

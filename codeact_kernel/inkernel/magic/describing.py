"""What the model is told of the notebook's names that a task mentions.

Comes in: the task, the namespace. Goes out: a line for each name: its type, its size, and of a table the columns. What
a value holds is told only where the person wants a sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from codeact_kernel.inkernel.magic.link import AgentError

COLUMNS = 50
"""Columns of a table that are told. Ours: what is wider is better looked at by code."""
SAMPLE = 20
"""Rows of a sample at most."""
_MODES = re.compile(r"none|schema|sample:(\d+)")
_WORD = re.compile(r"[^\W\d]\w*")


def rows_of(mode: str) -> int | None:
    """How many rows a mode shows; None where nothing is told at all.

    Args:
        mode: "none", "schema" or "sample:N".

    Raises:
        AgentError: If it is none of these.
    """
    match = _MODES.fullmatch(mode)
    if match is None or int(match[1] or 0) > SAMPLE:
        raise AgentError(f"--describe {mode}: it takes none, schema, or sample:N with at most {SAMPLE} rows")
    return None if mode == "none" else int(match[1] or 0)


def mentioned(task: str, names: Iterable[str]) -> list[str]:
    """The names that a task mentions, in their order there.

    Args:
        task: The task.
        names: Those of the notebook.
    """
    known = set(names)
    return [word for word in dict.fromkeys(_WORD.findall(task)) if word in known]


def described(values: Mapping[str, Any], rows: int) -> list[str]:
    """A line for each value, and its sample below.

    Args:
        values: The values by name.
        rows: Rows of a table that are shown.
    """
    return [line for name, value in values.items() for line in _lines(name, value, rows)]


def _lines(name: str, value: Any, rows: int) -> list[str]:
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    parts = [kind.__name__ if library == "builtins" else f"{library}.{kind.__name__}"]
    sample = ""
    with suppress(Exception):  # no more is told of what cannot be looked at
        if library in ("pandas", "polars") and hasattr(value, "columns"):
            parts.append("x".join(map(str, value.shape)))
            dtypes = dict(zip(map(str, value.columns), map(str, value.dtypes), strict=False))
            told = [f"{column} ({dtype})" for column, dtype in list(dtypes.items())[:COLUMNS]]
            more = len(dtypes) - len(told)
            parts.append("columns " + ", ".join([*told, *([f"and {more} more"] if more > 0 else [])]))
            sample = str(value.head(rows)) if rows else ""
        elif isinstance(getattr(value, "shape", None), tuple):
            parts += ["x".join(map(str, value.shape)), str(getattr(value, "dtype", ""))]
            sample = str(value[:rows]) if rows else ""
        elif kind in (str, bytes, list, tuple, dict, set, frozenset):
            parts.append(
                f"{len(value)} {'characters' if kind is str else 'bytes' if kind is bytes else 'members'}"
            )
        elif callable(value):
            parts.append("it can be called")
    line = f"- {name}: {', '.join(filter(None, parts))}"
    return [line, sample] if sample else [line]

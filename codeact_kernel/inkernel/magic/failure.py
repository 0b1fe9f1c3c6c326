"""The notebook's last error, told to an agent that shall fix it.

Comes in: cells as they are run. Goes out: the cell that failed, its traceback, and the cells that define what it uses.
"""

from __future__ import annotations

import ast
import traceback
from typing import Any

from codeact_kernel.inkernel.functions import reads
from codeact_kernel.inkernel.magic.link import AgentError

CELLS = 8
"""Cells that are told besides, the newest first. Ours: what is further away is seldom the cause."""
LINES = 400
"""Lines of code that are told in all."""

_TOLD = """

(The user asks about the last error of the notebook. It was in the user's kernel, which you cannot reach: make \
what you need to try something out. Say what is wrong, and give the cell as it should be.)

The cell that failed:
```python
{cell}
```

The error:
```text
{error}
```
{more}"""
_MORE = """
Earlier cells that define what it uses, in the order in which they ran:
```python
{cells}
```
"""


class Failures:
    """Remembers what failed last, and what ran before.

    Args:
        shell: IPython's shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._last: tuple[str, str] | None = None
        """The cell, and its traceback."""
        self._ran: list[str] = []
        shell.events.register("post_run_cell", self._ended)

    def close(self) -> None:
        """Remember nothing more."""
        self._shell.events.unregister("post_run_cell", self._ended)

    def told(self) -> str:
        """The last error, as the model reads it.

        Raises:
            AgentError: If there was none.
        """
        if self._last is None:
            raise AgentError("%agent fix: no cell has failed in this notebook")
        cell, error = self._last
        cells = self._behind(cell)
        more = _MORE.format(cells="\n\n".join(cells)) if cells else ""
        return _TOLD.format(cell=cell.strip(), error=error, more=more)

    def _ended(self, result: Any) -> None:
        cell = str(result.info.raw_cell)
        if cell.lstrip().startswith(("%agent", "%%agent")):
            return
        error = result.error_in_exec or result.error_before_exec
        if error is not None and not isinstance(error, KeyboardInterrupt):
            self._last = cell, _traceback(error)
        self._ran.append(cell)
        del self._ran[:-200]

    def _behind(self, failed: str) -> list[str]:
        """The cells that have made the names that a cell uses, and those that these use, in their order."""
        wanted, lines = self._names(failed)[0], LINES
        found: list[str] = []
        for cell in reversed(self._ran):
            used, made = self._names(cell)
            if not made & wanted or cell in (failed, *found):
                continue
            if len(found) == CELLS or (lines := lines - cell.count("\n") - 1) < 0:
                break
            found.append(cell)
            wanted = (wanted - made) | used
        return [cell.strip() for cell in reversed(found)]

    def _names(self, cell: str) -> tuple[set[str], set[str]]:
        """The names that a cell reads, and those that it makes."""
        try:
            code = compile(self._shell.transform_cell(cell), "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except (SyntaxError, ValueError):
            return set(), set()
        return set(reads(code)), set(_made(code))


def _made(code: Any) -> list[str]:
    import dis

    makes = ("STORE_NAME", "STORE_GLOBAL")
    return [str(step.argval) for step in dis.get_instructions(code) if step.opname in makes]


def _traceback(error: BaseException) -> str:
    """A traceback without IPython's own frames."""
    told = traceback.TracebackException.from_exception(error)
    frames = list(told.stack)
    while len(frames) > 1 and ("IPython" in frames[0].filename or "codeact_kernel" in frames[0].filename):
        del frames[0]
    told.stack = traceback.StackSummary.from_list(frames)
    return "".join(told.format()).strip()

"""Where programs run that tools start for blocks: behind the same walls as a kernel, in a cell of their own.

Comes in: a program and its arguments. Goes out: what to start instead.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping, Sequence

from codeact_kernel.kernels.sandbox.cell import Cell, make_kernel_folder
from codeact_kernel.kernels.sandbox.choose import Sandbox


class Workshop:
    """A cell for programs, made when the first one is started.

    Args:
        sandbox: What kernels of the run are walled in by; None for nothing.
    """

    def __init__(self, sandbox: Sandbox | None) -> None:
        self._sandbox = sandbox
        self._cell: Cell | None = None
        self._lock = threading.Lock()

    def walled(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str
    ) -> tuple[list[str], dict[str, str], str]:
        """What to start in a program's place.

        Args:
            argv: The program and its arguments.
            env: Its environment.
            cwd: The folder in which it is to run.

        Returns:
            The same three, for who starts it.
        """
        if self._sandbox is None:
            return list(argv), dict(env), cwd
        with self._lock:
            if self._cell is None:
                self._cell = self._sandbox.cell(make_kernel_folder(), for_programs=True)
        start = self._cell.start(list(argv), self._cell.environment(dict(env)), cwd)
        return start.argv, start.env, start.cwd

    def close(self) -> None:
        """End what is left in it, and remove its folder."""
        if self._cell is not None:
            self._cell.close()
            shutil.rmtree(self._cell.place.folder, ignore_errors=True)

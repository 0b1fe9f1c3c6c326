"""Source becomes a tree, and the tree code, in many threads at once.

Comes in: source. Goes out: its tree, built in one thread at a time, and its code. Python 3.11 counts the depth of the
tree that it builds once for the whole process: two threads that build trees at the same time sometimes fail with a
`SystemError` about that depth.
"""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from ipykernel.compiler import XCachingCompiler

from codeact_kernel.inkernel.request import current

T = TypeVar("T")

_building = threading.RLock()


def one_at_a_time(build: Callable[..., T], *args: Any, **options: Any) -> T:
    """Call what builds a tree while no other thread does.

    Args:
        build: Builds the tree.
        *args: Its arguments.
        **options: Its named arguments.

    Returns:
        What it returns.
    """
    with _building:
        return build(*args, **options)


def adopt_parsing() -> None:
    """From now on `ast.parse`, which libraries call as well, takes its turn."""
    stock = ast.parse

    def parse(*args: Any, **options: Any) -> Any:
        """Parse the source into an AST node, as in the standard library."""
        return one_at_a_time(stock, *args, **options)

    ast.parse = parse
    os.register_at_fork(after_in_child=_building._at_fork_reinit)  # type: ignore[attr-defined]


class BlockCompiler(XCachingCompiler):  # type: ignore[misc]
    """Names the code of an agent's block after the block, so that tracebacks say where they are.

    The flags for one piece of code ("await is allowed") are those of the thread that compiles it: IPython turns them
    on and off for all, and code that another block compiles in between fails.
    """

    def __init__(self) -> None:
        self._own = threading.local()
        super().__init__()

    @property
    def flags(self) -> int:
        """What holds for all code (future statements), and for the piece that this thread compiles."""
        return int(self._lasting | self._extra)

    @flags.setter
    def flags(self, value: int) -> None:
        self._lasting = value & ~self._extra

    @property
    def _extra(self) -> int:
        return int(getattr(self._own, "extra", 0))

    @contextmanager
    def extra_flags(self, flags: int) -> Generator[None]:
        """Compile with more flags, in this thread, as long as the context is open.

        Args:
            flags: What to add.
        """
        before = self._extra
        self._own.extra = before | (flags & ~self._lasting)
        try:
            yield
        finally:
            self._own.extra = before

    def ast_parse(self, *args: Any, **kwargs: Any) -> Any:
        """Build the tree of a request's code."""
        return one_at_a_time(super().ast_parse, *args, **kwargs)

    def get_code_name(self, raw_code: str, code: str, number: int) -> str:
        """The file name of a block's code; an ordinary cell's is what the debugger expects."""
        request = current.get()
        if request is None or request.block_id is None:
            return str(super().get_code_name(raw_code, code, number))
        return f"<block {request.block_id}>"

    def format_code_name(self, name: str) -> tuple[str, str] | None:
        """How a traceback for people calls that code."""
        if name.startswith("<block ") and name.endswith(">"):
            return "Block", name[7:-1]
        named: tuple[str, str] | None = super().format_code_name(name)
        return named

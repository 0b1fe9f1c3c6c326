"""`%%time`, `%time` and `%%capture` around code that awaits.

Comes in: the syntax tree of a block. Goes out: the tree with such a magic replaced by a `with` around the code
itself, so that the code is awaited like the rest of the block. Where nothing awaits, IPython's own magic runs; but
an agent's `%%capture` is always replaced: an error or an interrupt of the code inside is to be the block's.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from IPython.core.magic_arguments import parse_argstring
from IPython.utils.capture import capture_output

from codeact_kernel.inkernel.request import current

AWAITABLE = ("time", "capture")


def awaiting_magic(statement: ast.stmt) -> tuple[str, str, str] | None:
    """Read a statement that is one of these magics around code.

    Args:
        statement: A statement after IPython's transform.

    Returns:
        (magic, its line, the code), or None for any other statement.
    """
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    values = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    if call.func.attr == "run_cell_magic" and len(values) == 3 and values[0] in AWAITABLE:
        return values[0], values[1], values[2]
    if call.func.attr == "run_line_magic" and len(values) >= 2 and values[0] == "time":
        return "time", "", values[1]
    return None


def code_of_magics(shell: Any, code: str) -> str | None:
    """The code inside a magic of these, where the block is one, after IPython's transform.

    Args:
        shell: IPython's shell.
        code: The block, after IPython's transform.
    """
    if "run_cell_magic" not in code and "run_line_magic" not in code:
        return None
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError):
        return None
    inner = [magic[2] for magic in map(awaiting_magic, body) if magic]
    return str(shell.transform_cell("\n".join(inner))) if inner else None


class AwaitingMagics(ast.NodeTransformer):
    """An AST transformer of the shell.

    Args:
        shell: IPython's shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def visit_Module(self, module: ast.Module) -> ast.Module:
        """Replace what awaits."""
        module.body = [self._replaced(statement) for statement in module.body]
        return ast.fix_missing_locations(module)

    def _replaced(self, statement: ast.stmt) -> ast.stmt:
        magic = awaiting_magic(statement)
        if magic is None:
            return statement
        name, line, code = magic
        code = str(self._shell.transform_cell(code))
        try:
            body = ast.parse(code).body
        except SyntaxError:
            return statement
        if not (self._shell.should_run_async(code, transformed_cell=code) or _tells_its_end(name)):
            return statement
        for part in body:
            ast.increment_lineno(part, statement.lineno)
        if body and isinstance(body[-1], ast.Expr):
            body[-1] = ast.Expr(_call("_shown", body[-1].value))
        enter = _call("_timed") if name == "time" else _call("_captured", ast.Constant(line))
        return ast.With(items=[ast.withitem(enter)], body=body or [ast.Pass()])


def _tells_its_end(name: str) -> bool:
    """Whether how the code ends is the block's end. IPython's `%%capture` takes every error for a good end."""
    request = current.get()
    return name == "capture" and request is not None and request.block_id is not None


def _call(name: str, *args: ast.expr) -> ast.expr:
    """A call of a helper of this module, spelt so that no name of the namespace is needed."""
    call = ast.parse(f"__import__({__name__!r}, fromlist=['{name}']).{name}()", mode="eval").body
    assert isinstance(call, ast.Call)
    call.args = list(args)
    return call


@contextmanager
def _timed() -> Generator[None]:
    wall = time.perf_counter()
    try:
        yield
    finally:
        # Time of the processor is the process's, which other blocks share: only the wall clock is this code's.
        print(f"Wall time: {_readable(time.perf_counter() - wall)}")


def _readable(seconds: float) -> str:
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "μs")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _shown(value: Any) -> None:
    import sys

    sys.displayhook(value)


@contextmanager
def _captured(line: str) -> Generator[None]:
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    arguments = parse_argstring(shell.find_cell_magic("capture"), line)
    with capture_output(not arguments.no_stdout, not arguments.no_stderr, not arguments.no_display) as io:
        yield
    if arguments.output:
        shell.user_ns[arguments.output] = io

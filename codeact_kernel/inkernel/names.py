"""Which names a block needs and which it makes, read from its syntax tree.

Comes in: code after IPython's transform. Goes out: `Names`, by which the router orders blocks. Where the tree
cannot tell (a star import, `exec`), nothing is guessed: such code makes no names that anybody waits for.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

_LOOP_CALLS = {"create_task", "ensure_future", "get_running_loop", "TaskGroup"}
"""Calls that need a running event loop: a block that makes one belongs where the loop is."""
_PYTHON_MAGICS = {"time", "timeit", "capture", "prun"}
"""Magics whose body or argument is Python that runs in the namespace."""


@dataclass
class Names:
    """What a block does with the names of the namespace."""

    needs: set[str] = field(default_factory=set)
    """Names that it reads before it has assigned them itself."""
    makes: set[str] = field(default_factory=set)
    """Names that it assigns, imports, defines, or changes in place."""
    calls_loop: bool = False
    """Whether it makes a call that needs a running event loop."""


def names_of(code: str) -> Names:
    """Read a block's names.

    Args:
        code: Python, after IPython's transform.

    Returns:
        Its names; empty where the code does not parse.
    """
    names = Names()
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return names
    reader = _Reader(names)
    reader.read_body(tree.body)
    for name in reader.deferred:
        if name not in names.makes:
            names.needs.add(name)
    return names


class _Reader(ast.NodeVisitor):
    """Walks module-level code in the order in which it runs.

    Bodies of functions run later, if at all: what they read counts as needed unless the block makes that name
    anywhere. Comprehensions run at once, with targets of their own.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.deferred: set[str] = set()
        self._local: list[set[str]] = []

    def read_body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)

    def _read(self, name: str) -> None:
        if name not in self.names.makes and not any(name in scope for scope in self._local):
            self.names.needs.add(name)

    def _make(self, name: str) -> None:
        if self._local and name in self._local[-1]:
            return
        self.names.makes.add(name)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
            self.names.calls_loop |= node.id in _LOOP_CALLS
        elif isinstance(node.ctx, ast.Store):
            self._make(node.id)
        else:
            self._read(node.id)
            self._make(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._target(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        root = _root(node.target)
        if root:
            self._read(root)
        self._target(node.target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self._target(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.names.makes.add(node.target.id)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._target(node.target)
        self.read_body(node.body)
        self.read_body(node.orelse)

    visit_AsyncFor = visit_For

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._target(item.optional_vars)
        self.read_body(node.body)

    visit_AsyncWith = visit_With

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name:
            self._local.append({node.name})
        self.read_body(node.body)
        if node.name:
            self._local.pop()

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._make(alias.asname or alias.name.partition(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name != "*":
                self._make(alias.asname or alias.name)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.names.calls_loop |= node.attr in _LOOP_CALLS
        self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._function(node.args, node.body)
        self._make(node.name)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node.args, [ast.Expr(node.body)])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for expression in [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]:
            self.visit(expression)
        inner = _Reader(Names())
        inner.read_body(node.body)
        for name in inner.names.needs:
            self._read(name)
        self.deferred |= inner.deferred - inner.names.makes
        self._make(node.name)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self._local.append(set())
        for generator in node.generators:
            self.visit(generator.iter)
            self._local[-1] |= {n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)}
            for condition in generator.ifs:
                self.visit(condition)
        for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self.visit(part)
        self._local.pop()

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp

    def visit_Call(self, node: ast.Call) -> None:
        python = _magic_body(node)
        if python is None:
            self.generic_visit(node)
            return
        inner = names_of(python)
        for name in inner.needs:
            self._read(name)
        self.names.makes |= inner.makes
        self.names.calls_loop |= inner.calls_loop

    def _target(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self._target(element)
        elif isinstance(target, ast.Starred):
            self._target(target.value)
        elif isinstance(target, ast.Name):
            self._make(target.id)
        else:
            self.visit(target)
            root = _root(target)
            if root:
                self._make(root)

    def _function(self, arguments: ast.arguments, body: list[ast.stmt]) -> None:
        for default in [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]:
            self.visit(default)
        reads: set[str] = set()
        stores: set[str] = set()
        shared: set[str] = set()
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        stores |= {a.arg for a in [*every, arguments.vararg, arguments.kwarg] if a is not None}
        for node in (inner for statement in body for inner in ast.walk(statement)):
            if isinstance(node, ast.Name):
                (reads if isinstance(node.ctx, ast.Load) else stores).add(node.id)
            elif isinstance(node, ast.Global):
                shared |= set(node.names)
            elif isinstance(node, ast.arg):
                stores.add(node.arg)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                stores.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                stores |= {a.asname or a.name.partition(".")[0] for a in node.names}
            elif isinstance(node, ast.ExceptHandler) and node.name:
                stores.add(node.name)
        self.deferred |= {n for n in reads - (stores - shared) if not any(n in s for s in self._local)}
        for name in shared & stores:
            self._make(name)


def _root(target: ast.expr) -> str | None:
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None


def _magic_body(node: ast.Call) -> str | None:
    """The Python inside `get_ipython().run_cell_magic("time", …)` and its kin."""
    function = node.func
    if not isinstance(function, ast.Attribute) or function.attr not in ("run_cell_magic", "run_line_magic"):
        return None
    values = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    if len(values) < 2 or values[0] not in _PYTHON_MAGICS or not isinstance(values[-1], str):
        return None
    return values[-1]

"""A recorded run as a Python program of its own.

Comes in: a recorded run. Goes out: the code of the blocks that ended well, in the order in which they ran, as a .py
file. What only IPython takes is written as calls of it; blocks that await run in one event loop.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

from codeact_kernel.agent.recorded.run import RecordedRun, events_of
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.events import ToolCalled
from codeact_kernel.transcript import BlockRecord

_IPYTHON = (
    "from IPython.core.interactiveshell import InteractiveShell\n\nget_ipython = InteractiveShell.instance\n"
)
_LOOP = "import asyncio\n\nloop = asyncio.new_event_loop()\n"


def script(run: RecordedRun) -> str:
    """Write a run as a program.

    Args:
        run: The run.
    """
    ran = sorted((b for b in run.blocks if _is_good(b)), key=lambda block: (block.started or 0.0, block.turn))
    parts = [_part(block) for block in ran if isinstance(block.block, CodeBlock)]
    code = "\n\n".join(parts)
    tools = sorted({event.name for event in events_of(run.path) if isinstance(event, ToolCalled)})
    head = textwrap.indent(run.task.strip(), "# ", lambda _: True)
    return "\n\n".join(
        [
            head,
            *([f"# It calls tools of its host, which have to be here: {', '.join(tools)}"] if tools else []),
            *([_IPYTHON] if "get_ipython()" in code else []),
            *([_LOOP] if "loop.run_until_complete(" in code else []),
            code,
            "",
        ]
    )


def _is_good(record: BlockRecord) -> bool:
    return record.result is not None and record.result.status == "ok"


def _part(record: BlockRecord) -> str:
    from IPython.core.inputtransformer2 import TransformerManager

    assert isinstance(record.block, CodeBlock)
    head = f"# turn {record.turn}, {record.id.encode('ascii', 'replace').decode()}\n"
    code = record.block.code.strip("\n")
    try:
        compile(code, "block", "exec")
    except SyntaxError:
        code = TransformerManager().transform_cell(code).strip("\n")
        try:
            compile(code, "block", "exec")
        except SyntaxError:
            return head + _awaiting(code)
    return head + code


def _awaiting(code: str) -> str:
    """A block that awaits, as a coroutine whose names are those of the program."""
    tree = ast.parse(code)
    names = sorted(set(_bound(tree.body)))
    lines = [f"global {', '.join(names)}"] if names else []
    # A name with a type cannot be global; the type says nothing to a program that runs.
    typed = any(isinstance(node, ast.AnnAssign) for node in ast.walk(tree))
    lines.append(ast.unparse(_Untyped().visit(tree)) if typed else code)
    body = textwrap.indent("\n".join(lines), "    ")
    return f"async def block():\n{body}\n\n\nloop.run_until_complete(block())"


class _Untyped(ast.NodeTransformer):
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return ast.copy_location(ast.Assign([node.target], node.value, lineno=node.lineno), node)


def _bound(nodes: list[ast.stmt] | list[ast.AST]) -> Iterator[str]:
    """The names that code binds, but for those of its functions and classes."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
                continue
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                continue
            case ast.Name(id=name, ctx=ast.Store()) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case _:
                pass
        yield from _bound(list(ast.iter_child_nodes(node)))

"""A recorded run as a Python program of its own.

Comes in: a recorded run. Goes out: the code of the blocks that mattered, in the order in which they ran, as a .py file.
What only IPython takes is written as calls of it; blocks that await run in one event loop; the value that a block has
shown is printed.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codeact_kernel.agent.recorded.effects import Doings, doings
from codeact_kernel.agent.recorded.mattering import Ran, lacking, mattered
from codeact_kernel.agent.recorded.run import RecordedRun, events_of, output_text
from codeact_kernel.blocks import CodeBlock, ResultOutput
from codeact_kernel.events import ToolCalled
from codeact_kernel.transcript import BlockRecord

_IPYTHON = (
    "from IPython.core.interactiveshell import InteractiveShell\n\nget_ipython = InteractiveShell.instance\n"
)
_LOOP = "import asyncio\n\nloop = asyncio.new_event_loop()\n"
_DISPLAY = "from IPython.display import display\n"


@dataclass(frozen=True, slots=True)
class _Block:
    """A block on its way into the program."""

    record: BlockRecord
    code: str
    awaits: bool
    does: Doings

    @property
    def ran(self) -> Ran:
        return Ran(self.does, output_text(self.record), self.failed)

    @property
    def failed(self) -> bool:
        return self.record.result is not None and self.record.result.status == "error"


def script(run: RecordedRun) -> str:
    """Write a run as a program.

    Args:
        run: The run.
    """
    ended = [b for b in run.blocks if b.result is not None and b.result.status in ("ok", "error")]
    ended.sort(key=lambda block: (block.started or 0.0, block.turn))
    tools = sorted({event.name for event in events_of(run.path) if isinstance(event, ToolCalled)})
    blocks = _read(ended, tools)
    runs = run.transcript.runs
    task = "\n\n".join(each.start.task.strip() for each in runs)
    answers = [each.end.answer for each in runs if each.end and each.end.answer]
    answer = "\n".join(answers) if run.answer is not None else None
    kept = [blocks[at] for at in mattered([b.ran for b in blocks], task, answer)]
    code = "\n\n".join(map(_part, kept))
    given = {"display", "get_ipython", "asyncio", "loop"} | {name.partition(".")[0] for name in tools}
    missing = [name for name in lacking([b.ran for b in kept]) if name not in given]
    notes = [textwrap.indent(task, "# ", lambda _: True)]
    if tools:
        notes.append(f"# It calls tools of its host, which have to be here: {', '.join(tools)}")
    if missing:
        notes.append(f"# It reads names that no block of the run makes: {', '.join(missing)}")
    uses = {
        _IPYTHON: "get_ipython()" in code,
        _DISPLAY: any("display" in block.does.reads for block in kept),
        _LOOP: "loop.run_until_complete(" in code,
    }
    return "\n\n".join([*notes, *(head for head, is_used in uses.items() if is_used), code, ""])


def _read(records: list[BlockRecord], tools: Iterable[str]) -> list[_Block]:
    """The blocks whose code can be read, each with what it does."""
    codes = [
        (record, *_plain(record.block.code)) for record in records if isinstance(record.block, CodeBlock)
    ]
    trees = [(record, code, awaits, tree) for record, code, awaits in codes if (tree := _parsed(code))]
    own = {re.split("[:.]", tool)[-1] for tool in tools}
    for *_, tree in trees:
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        own |= {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    return [_Block(record, code, awaits, doings(code, own)) for record, code, awaits, _ in trees]


def _parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except SyntaxError:  # so its block has failed
        return None


def _plain(code: str) -> tuple[str, bool]:
    """Code as Python has it, without what it asked of its agent; and whether it awaits."""
    from IPython.core.inputtransformer2 import TransformerManager

    code = code.strip("\n")
    if not _compiles(code) and not _compiles(code, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        code = TransformerManager().transform_cell(code).strip("\n")
    if (tree := _parsed(code)) is not None:
        lines = code.split("\n")
        for node in tree.body:
            if _is_for_the_agent(node) and node.end_lineno:
                for at in range(node.lineno - 1, node.end_lineno):
                    lines[at] = f"# {lines[at]}"
        alone = "\n".join(lines)
        code = alone if _parsed(alone) else code
    return code, not _compiles(code) and _compiles(code, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def _compiles(code: str, flags: int = 0) -> bool:
    try:
        compile(code, "block", "exec", flags)
    except (SyntaxError, ValueError):
        return False
    return True


def _is_for_the_agent(node: ast.stmt) -> bool:
    """Whether a statement only tells the agent something, which a program has not: `self.compact_knowledge("…")`."""
    value = node.value if isinstance(node, ast.Expr) else None
    value = value.value if isinstance(value, ast.Await) else value
    of = value.func if isinstance(value, ast.Call) else None
    return isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id == "self"


def _part(block: _Block) -> str:
    record = block.record
    head = f"# turn {record.turn}, {record.id.encode('ascii', 'replace').decode()}\n"
    code = _awaiting(_shown(block)) if block.awaits else _shown(block)
    if not block.failed:
        return head + code
    tried = f"try:\n{_indented(code)}\nexcept Exception as error:\n    print(error)"
    return f"{head}# It failed, and what it had made before that is used below.\n{tried}"


def _shown(block: _Block) -> str:
    """A block's code that prints what it has shown as its value."""
    tree = ast.parse(block.code)
    last = tree.body[-1] if tree.body else None
    outputs = block.record.outputs.outputs(block.record.file)
    if not isinstance(last, ast.Expr) or not any(isinstance(output, ResultOutput) for output in outputs):
        return block.code
    lines = block.code.split("\n")
    if lines[last.lineno - 1][: last.col_offset].strip():  # another statement stands before it
        return block.code
    value = ast.get_source_segment(block.code, last.value) or ""
    before = "\n".join(lines[: last.lineno - 1])
    return f"{before}\n_ = (\n{value}\n)\nprint(repr(_))".lstrip("\n")


def _indented(code: str) -> str:
    """Code one level deeper; what stands in a text of several lines stays as it is."""
    inside = {
        line
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        for line in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(code.split("\n"), 1)
    return "\n".join(line if at in inside or not line else f"    {line}" for at, line in lines)


def _awaiting(code: str) -> str:
    """A block that awaits, as a coroutine whose names are those of the program."""
    tree = ast.parse(code)
    names = sorted(set(_bound(tree.body)))
    head = f"    global {', '.join(names)}\n" if names else ""
    # A name with a type cannot be global; the type says nothing to a program that runs.
    typed = any(isinstance(node, ast.AnnAssign) for node in ast.walk(tree))
    body = _indented(ast.unparse(_Untyped().visit(tree)) if typed else code)
    return f"async def block():\n{head}{body}\n\n\nloop.run_until_complete(block())"


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

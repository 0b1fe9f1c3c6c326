"""What a block of code needs, makes and does, as far as its text tells.

Comes in: code that Python takes, await at the top included. Goes out: `Doings`. What is not known to do nothing is
taken to do something: so who leaves out what does nothing leaves out too little rather than too much.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

_WORD = re.compile(r"[^\W\d]\w*")
_FUNCTIONS = frozenset(
    _WORD.findall("""
    abs all any bin bool bytes chr complex dict dir display divmod enumerate filter float format frozenset getattr
    hasattr hash help hex id int isinstance issubclass len list map max min oct ord pow pprint print range repr reversed
    round set slice sorted str sum tuple type zip Counter DataFrame Decimal Fraction Path Series date datetime
    defaultdict timedelta
    """)
)
"""Functions that read, count and show, and do nothing else; a run may have others of these names."""
_METHODS = frozenset(
    _WORD.findall("""
    agg arange argmax argmin array as_posix astype capitalize casefold ceil corr count cumsum date describe diff
    difference dropna dumps endswith exists fillna findall floor format getcwd glob groupby head idxmax idxmin
    index info intersection is_dir is_file isalpha isdigit isna isnull isoformat items iterdir join keys linspace
    listdir loads log lower lstrip match max mean median merge min most_common nlargest notna nsmallest nunique
    ones partition quantile resolve round rstrip sort_index sort_values split splitlines sqrt startswith stat std
    strftime strip sum tail timestamp title to_dict to_list to_numpy to_string tolist union unique upper
    value_counts values zeros DataFrame Series Counter Path
    """)
)
"""Methods, and functions of modules, of which the same is taken; and all whose name begins with "read_"."""
_OF_A_FILE = ("read", "readlines", "readline")
"""Methods that do nothing but to what the block has opened itself."""
_RUN_TEXT = ("eval", "exec", "get_ipython")
_HIDE = ("globals", "locals", "vars", "compile", "__import__")


@dataclass(slots=True)
class Doings:
    """What a block needs, makes and does."""

    reads: set[str] = field(default_factory=set)
    """Names that it reads before it has made them."""
    mentions: set[str] = field(default_factory=set)
    """Words that stand in texts, which may be names that somebody reads."""
    makes: set[str] = field(default_factory=set)
    """Names that it makes whatever happens, so that what they were before is gone."""
    changes: set[str] = field(default_factory=set)
    """Names that it may make, or whose values it changes."""
    defines: set[str] = field(default_factory=set)
    """Those of `makes` that are modules, functions and classes."""
    later: set[str] = field(default_factory=set)
    """Names that functions of its read when they are called."""
    acts: bool = False
    """Whether it may do anything else: write a file, call a function of which nothing is known."""
    hides: bool = False
    """Whether it may use names that its text does not hold."""

    @property
    def all_made(self) -> set[str]:
        """All that it may have made."""
        return self.makes | self.changes


def doings(code: str, own: Collection[str] = ()) -> Doings:
    """What a block does.

    Args:
        code: Its code, after IPython's transform.
        own: Names that are functions of the run or its tools, whatever others of that name do.
    """
    found = _Reader(own)
    found.block(ast.parse(code).body, set(), is_sure=True)
    return found.told


class _Reader:
    """Reads a block from top to bottom."""

    def __init__(self, own: Collection[str]) -> None:
        self.told = Doings()
        self._own = own

    def block(self, body: Sequence[ast.stmt], bound: set[str], is_sure: bool) -> None:
        """Read statements; `bound` are the names that the block has made by now, and grows."""
        for statement in body:
            self._statement(statement, bound, is_sure)

    def _statement(self, node: ast.stmt, bound: set[str], is_sure: bool) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._reads([*node.decorator_list, node.args, node.returns], bound)
                self.told.acts |= bool(node.decorator_list)
                self._later(node)
                self.told.defines.add(node.name)
                self._makes({node.name}, bound, is_sure)
            case ast.ClassDef():
                self._reads([*node.decorator_list, *node.bases, *node.keywords], bound)
                self.told.acts |= bool(node.decorator_list or node.bases or node.keywords)
                self._later(node)
                self._reads([part for part in node.body if not isinstance(part, ast.FunctionDef)], bound)
                self._makes({node.name}, bound, is_sure)
            case ast.Import() | ast.ImportFrom():
                names = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
                self.told.hides |= "*" in names
                self.told.defines |= names
                self._makes(names, bound, is_sure)
            case ast.For() | ast.AsyncFor():
                self._reads([node.iter], bound)
                self._stores([node.target], inner := set(bound), is_sure=False)
                self.block(node.body, inner, is_sure=False)
                self.block(node.orelse, set(bound), is_sure=False)
                self.told.acts |= isinstance(node, ast.AsyncFor)
            case ast.While() | ast.If():
                self._reads([node.test], bound)
                self.block(node.body, set(bound), is_sure=False)
                self.block(node.orelse, set(bound), is_sure=False)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._reads([item.context_expr], bound)
                    self._stores([item.optional_vars] if item.optional_vars else [], bound, is_sure)
                self.told.acts |= isinstance(node, ast.AsyncWith)
                self.block(node.body, bound, is_sure)
            case ast.Try() | ast.TryStar():
                for part in (node.body, *(handler.body for handler in node.handlers), node.orelse):
                    self.block(part, set(bound), is_sure=False)
                self._reads([handler.type for handler in node.handlers if handler.type], bound)
                self.block(node.finalbody, bound, is_sure)
            case ast.Assign():
                self._reads([node.value], bound)
                self._stores(node.targets, bound, is_sure)
            case ast.AnnAssign():
                self._reads([node.value, node.annotation] if node.value else [node.annotation], bound)
                self._stores([node.target] if node.value else [], bound, is_sure)
            case ast.AugAssign():
                self._reads([node.value], bound)
                self.told.reads |= _names_in(node.target) - bound
                self._stores([node.target], bound, is_sure)
            case ast.Expr():
                self._reads([node.value], bound)
            case ast.Assert() | ast.Pass():
                self._reads([node], bound)
            case _:
                self.told.acts = True
                self._reads([node], bound)
                self.told.changes |= _names_in(node)

    def _makes(self, names: set[str], bound: set[str], is_sure: bool) -> None:
        (self.told.makes if is_sure else self.told.changes).update(names)
        bound |= names

    def _stores(self, targets: Sequence[ast.expr], bound: set[str], is_sure: bool) -> None:
        for target in targets:
            for node in _flat(target):
                if isinstance(node, ast.Name):
                    self._makes({node.id}, bound, is_sure)
                    continue
                # Of an attribute or an item it is the whole that is changed.
                self._reads([node], bound)
                roots = _names_in(node)
                self.told.changes |= roots
                self.told.acts |= not roots

    def _reads(self, nodes: Iterable[ast.AST | None], bound: set[str]) -> None:
        """Read what is worked out at once."""
        for node in nodes:
            match node:
                case None:
                    continue
                case ast.Name(id=name, ctx=ast.Load()):
                    self.told.reads |= {name} - bound
                case ast.Constant(value=str(text)):
                    self.told.mentions |= set(_WORD.findall(text)) - bound
                case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                    targets = {name for part in node.generators for name in _names_in(part.target)}
                    self.told.acts |= any(part.is_async for part in node.generators)
                    self._reads([node.generators[0].iter], bound)
                    self._reads(ast.iter_child_nodes(node), bound | targets)
                    continue
                case ast.Lambda():
                    self._later(node)
                    self._reads(
                        [node.body],
                        bound | {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)},
                    )
                    self._reads([*node.args.defaults, *node.args.kw_defaults], bound)
                    continue
                case ast.NamedExpr(target=ast.Name(id=name)):
                    self.told.changes.add(name)
                case ast.Await() | ast.Yield() | ast.YieldFrom():
                    self.told.acts = True
                case ast.Call():
                    self._call(node, bound)
                case _:
                    pass
            self._reads(ast.iter_child_nodes(node), bound)

    def _call(self, call: ast.Call, bound: set[str]) -> None:
        told, given = self.told, [*call.args, *(keyword.value for keyword in call.keywords)]
        match call.func:
            case ast.Name(id=name):
                told.hides |= name in _HIDE
                if name in _RUN_TEXT:
                    told.hides |= not all(isinstance(value, ast.Constant) for value in given)
                    told.changes |= _words_in(call)
                told.acts |= not (
                    (name in _FUNCTIONS and name not in self._own) or (name == "open" and _only_reads(call))
                )
            case ast.Attribute(attr=name, value=of):
                if any(isinstance(part, ast.Name) and part.id == "get_ipython" for part in ast.walk(of)):
                    told.changes |= _words_in(call)
                is_file = name in _OF_A_FILE and isinstance(of, ast.Name) and of.id in bound
                is_item = name == "get" and any(isinstance(part, ast.Constant) for part in call.args[:1])
                told.acts |= not (name in _METHODS or name.startswith("read_") or is_file or is_item)
            case _:
                told.acts = True
        told.acts |= any(keyword.arg in ("inplace", "file", "out") for keyword in call.keywords)
        # A function of the run may do anything to whoever calls it.
        told.acts |= any(isinstance(value, ast.Name) and value.id in self._own for value in given)

    def _later(self, node: ast.AST) -> None:
        """What a function reads when it is called: the names that are global to it."""
        self.told.later |= set(_globals(symtable.symtable(ast.unparse(node), "block", "exec")))


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    for child in table.get_children():
        yield from (symbol.get_name() for symbol in child.get_symbols() if symbol.is_global())
        yield from _globals(child)


def _only_reads(call: ast.Call) -> bool:
    modes = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    return all(isinstance(mode, ast.Constant) and set(str(mode.value)) <= set("rbt") for mode in modes)


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _flat(part)
        case ast.Starred(value=value):
            yield from _flat(value)
        case _:
            yield target


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _words_in(node: ast.AST) -> set[str]:
    texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return {word for text in texts if isinstance(text, str) for word in _WORD.findall(text)}

"""Shell commands, split into the simple commands that a shell would run.

Comes in: a line for a shell, or a list of arguments. Goes out: each simple command with its words and the files that it
is redirected to, those inside substitutions, pipelines and subshells too; and why a list of patterns cannot judge it,
where it cannot. The lines are read by tree-sitter's grammar of bash, and whatever is not plain in it is a doubt.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

RUNS = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "fish", "busybox", "toybox", "csh", "tcsh", "pwsh", "python",
    "python2", "python3", "pypy", "pypy3", "ipython", "perl", "ruby", "node", "nodejs", "deno", "bun", "php",
    "lua", "luajit", "Rscript", "R", "julia", "awk", "gawk", "mawk", "nawk", "sed", "tclsh", "expect",
    "osascript", "jq", "env", "xargs", "parallel", "nice", "nohup", "timeout", "time", "setsid", "stdbuf",
    "unbuffer", "sudo", "doas", "su", "runuser", "ssh", "script", "chroot", "unshare", "nsenter", "bwrap",
    "watch", "strace", "ltrace", "gdb", "flock", "ionice", "taskset", "chrt", "command", "builtin", "exec",
    "make", "cmake", "ninja", "npm", "npx", "pnpm", "yarn", "pip", "pip3", "pipx", "uv", "uvx", "poetry",
    "cargo", "go", "gradle", "mvn", "docker", "podman", "kubectl", "git", "hg", "svn", "tar", "rsync", "zip",
    "vi", "vim", "nvim", "ed", "emacs", "less", "more", "man", "tox", "nox", "pre-commit", "pytest",
})  # fmt: skip
"""Programs that run what their arguments name, or code in them. A pattern with a wildcard says nothing of that: it has
to name what is run, word by word."""
OPAQUE = frozenset({
    "eval", ".", "source", "trap", "alias", "enable", "set", "hash", "bind", "complete", "coproc", "cd",
    "pushd", "popd", "read", "readonly", "readarray", "mapfile", "getopts", "declare", "typeset", "local",
    "let", "shift", "umask", "ulimit",
})  # fmt: skip
"""Words that change what the shell does with what follows."""
_FIND_RUNS = re.compile(r"-(exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls)")
_LAYOUT = frozenset({
    "program", "list", "pipeline", "subshell", "compound_statement", "redirected_statement",
    "negated_command", "if_statement", "elif_clause", "else_clause", "while_statement", "for_statement",
    "do_group", "case_statement", "case_item", "command_substitution", "test_command", "process_substitution",
    "string", "concatenation", "command_name", "binary_expression", "unary_expression",
    "parenthesized_expression", "negation_expression", "heredoc_body",
})  # fmt: skip
"""What holds commands, and does nothing itself."""
_QUIET = frozenset({
    "comment", "word", "raw_string", "number", "string_content", "simple_expansion", "variable_name",
    "special_variable_name", "test_operator", "regex", "extglob_pattern", "heredoc_start", "heredoc_end",
    "heredoc_content", "file_descriptor",
})  # fmt: skip
"""What runs nothing."""
_SETS = re.compile(rb"=|\+\+|--")
_EXPANDS = re.compile(r"(?<!\\)(?:\\\\)*[*?\[\]{}]|^~")
_ODD = re.compile(r"[^\S \t\n]|[\x00-\x08\x0b-\x1f\x7f]")
"""White space and signs that a shell and the grammar may take for different things."""


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command."""

    words: tuple[str | None, ...]
    """The program and its arguments; None for a word whose text only the shell will know."""
    targets: tuple[str | None, ...] = ()
    """Files that it reads from or writes to by redirection."""
    doubt: str = ""
    """Why a pattern cannot judge it; empty where one can."""
    is_shell: bool = True
    """Whether a shell reads it, and knows its own words."""

    @property
    def text(self) -> str:
        """It, for a person."""
        return " ".join("…" if word is None else shlex.quote(word) for word in self.words)

    @property
    def paths(self) -> tuple[str | None, ...]:
        """What may be paths in it: the words that are no options, and what it is redirected to."""
        return (
            *(_path_in(word) for word in self.words[1:] if word != "-" and not _is_option(word)),
            *self.targets,
        )


def split_line(line: str, stdin: bool = False) -> tuple[Simple, ...]:
    """Split a line as a shell would.

    Args:
        line: The line, or several.
        stdin: Whether something is written to its stdin.

    Returns:
        Its simple commands; one without words where it cannot be read.
    """
    if _ODD.search(line):
        return (Simple((), doubt="it holds control characters or unusual white space"),)
    try:
        tree = _parser().parse(line.encode("utf-8", "surrogateescape"))
        found = () if tree.root_node.has_error else tuple(_commands(tree.root_node))
    except (RecursionError, UnicodeError):
        found = ()
    if not found and line.strip():
        return (Simple((), doubt="it is no line that could be read"),)
    return tuple(_doubted(simple, fed=stdin) for simple in found) or (
        Simple((), doubt="it holds no command"),
    )


def of_arguments(words: Sequence[str], stdin: bool = False) -> tuple[Simple, ...]:
    """The command that a list of arguments is; no shell reads it.

    Args:
        words: The program and its arguments.
        stdin: Whether something is written to its stdin.
    """
    return (_doubted(Simple(tuple(map(str, words)), is_shell=False), fed=stdin),)


def read_pattern(pattern: str) -> tuple[str, ...]:
    """Read a pattern of commands: words with `*` and `?` in them; a last word `*` stands for any that follow, or none.

    Args:
        pattern: The pattern.

    Raises:
        ValueError: If it cannot be split into words.
    """
    words = tuple(shlex.split(pattern))
    if not words:
        raise ValueError("a pattern of commands holds words")
    return words


def covers(pattern: Sequence[str], simple: Simple) -> bool:
    """Whether a pattern means a command, beyond doubt.

    Args:
        pattern: As `read_pattern` gives it.
        simple: The command.
    """
    if simple.doubt or not _fits(pattern, simple.words, known=True):
        return False
    if _name_of(simple.words[0]) not in RUNS:
        return True
    named = next(
        (at for at, word in enumerate(simple.words) if at and not _is_option(word)), len(simple.words)
    )
    return tuple(pattern[: named + 1]) == simple.words[: named + 1]


def touches(pattern: Sequence[str], simple: Simple) -> bool:
    """Whether a pattern means a command, or what it runs, or may mean it.

    Args:
        pattern: As `read_pattern` gives it.
        simple: The command.
    """
    words = simple.words
    starts = range(len(words)) if words and _name_of(words[0]) in RUNS else range(min(1, len(words)))
    return any(
        _fits(pattern, (name, *words[at + 1 :]), known=False)
        for at in starts
        for name in {words[at], _name_of(words[at])}
    )


def _fits(pattern: Sequence[str], words: Sequence[str | None], *, known: bool) -> bool:
    rest = pattern[-1] == "*"
    wanted = pattern[:-1] if rest else pattern
    if len(words) < len(wanted) or (len(words) > len(wanted) and not rest):
        # A word that is not known may be several, or none.
        return not known and None in words and _fits_so_far(wanted, words)
    return all(
        not known if word is None else bool(_wildcards(sign).fullmatch(word))
        for sign, word in zip(wanted, words, strict=False)
    )


def _fits_so_far(wanted: Sequence[str], words: Sequence[str | None]) -> bool:
    for sign, word in zip(wanted, words, strict=False):
        if word is None:
            return True
        if not _wildcards(sign).fullmatch(word):
            return False
    return True


@functools.cache
def _wildcards(pattern: str) -> re.Pattern[str]:
    pieces = re.split(r"([*?])", pattern)
    meant = {"*": ".*", "?": "."}
    return re.compile("".join(meant.get(piece, re.escape(piece)) for piece in pieces), re.DOTALL)


def _name_of(word: str | None) -> str | None:
    return None if word is None else word.rpartition("/")[2]


def _is_option(word: str | None) -> bool:
    return (
        word is not None and word.startswith("-") and "/" not in word and "~" not in word and ".." not in word
    )


def _path_in(word: str | None) -> str | None:
    """A word as a path; an option with a path in it may mean any."""
    return None if word is None or word.startswith(("-", "~")) else word


def _doubted(simple: Simple, *, fed: bool) -> Simple:
    name = _name_of(simple.words[0]) if simple.words else None
    doubt = simple.doubt
    if not doubt and name is None:
        doubt = "what it runs is not a plain word"
    elif not doubt and name in OPAQUE and simple.is_shell:
        doubt = f"{name} changes what the shell does"
    elif not doubt and name in RUNS and fed:
        doubt = f"{name} reads what it does from somewhere else"
    elif (
        not doubt and name == "find" and any(word is None or _FIND_RUNS.match(word) for word in simple.words)
    ):
        doubt = "find runs commands, or removes or writes files"
    return replace(simple, doubt=doubt)


@functools.cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _commands(node: Node, targets: tuple[str | None, ...] = (), fed: bool = False) -> Iterator[Simple]:
    """The simple commands in a node of the grammar.

    Args:
        node: The node.
        targets: Redirections of what it is in.
        fed: Whether something else writes to its stdin.
    """
    kind = node.type
    if kind == "command":
        yield from _command(node, targets, fed)
    elif kind == "redirected_statement":
        redirects = node.children_by_field_name("redirect")
        body = node.child_by_field_name("body")
        fed = fed or any(redirect.type != "file_redirect" or _reads(redirect) for redirect in redirects)
        targets = (*targets, *(target for redirect in redirects for target in _targets(redirect)))
        for redirect in redirects:
            yield from _inside(redirect)
        if body is None:
            yield Simple((), targets, "it only redirects")
        else:
            yield from _commands(body, targets, fed)
    elif kind == "pipeline":
        for place, child in enumerate(node.named_children):
            yield from _commands(child, targets, fed or place > 0)
    elif kind in _LAYOUT:
        variable = node.child_by_field_name("variable")
        if variable is not None and not (variable.text or b"").islower():
            yield Simple((), doubt="it sets a variable that programs may read")
        for child in node.named_children:
            yield from _commands(child, targets, fed)
    elif kind in (
        "file_redirect",
        "heredoc_redirect",
        "herestring_redirect",
        "expansion",
        "arithmetic_expansion",
    ):
        yield from _inside(node)
    elif kind not in _QUIET:
        yield Simple((), doubt=f"it holds a {kind.replace('_', ' ')}")


def _command(node: Node, targets: tuple[str | None, ...], fed: bool) -> Iterator[Simple]:
    words: list[str | None] = []
    doubt = ""
    for child in node.named_children:
        if child.type == "variable_assignment":
            doubt = "it sets variables for what it runs"
        elif child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
            fed = fed or child.type != "file_redirect" or _reads(child)
            targets = (*targets, *_targets(child))
        elif child.type != "comment":
            words.append(_text_of(child))
        yield from _inside(child)
    yield _doubted(Simple(tuple(words), targets, doubt), fed=fed)


def _inside(node: Node) -> Iterator[Simple]:
    """The commands that a word, a redirection or an assignment holds."""
    if node.type in ("command_substitution", "process_substitution"):
        yield from _commands(node)
        return
    if node.type in ("expansion", "arithmetic_expansion") and _SETS.search(node.text or b""):
        yield Simple((), doubt="it sets a variable")
    for child in node.named_children:
        if child.type in (
            "pipeline",
            "command",
            "list",
        ):  # what follows a here-document's beginning on its line
            yield from _commands(child, fed=True)
        else:
            yield from _inside(child)


def _reads(redirect: Node) -> bool:
    return any(child.type.startswith("<") for child in redirect.children)


def _targets(redirect: Node) -> list[str | None]:
    """The files of a redirection."""
    if redirect.type != "file_redirect":
        return [target for child in redirect.named_children for target in _targets(child)]
    signs = {child.type for child in redirect.children if not child.is_named}
    named = [_text_of(child) for child in redirect.children_by_field_name("destination")]
    if signs & {">&", "<&", ">&-", "<&-"} and all(
        name is None or name.isdigit() or name == "-" for name in named
    ):
        return [name for name in named if name is None]
    return [name for name in named if name != "/dev/null"]


def _text_of(node: Node) -> str | None:
    """The text that a word comes to; None where only the shell knows."""
    text = (node.text or b"").decode("utf-8", "surrogateescape")
    match node.type:
        case "command_name" if len(node.named_children) == 1:
            return _text_of(node.named_children[0])
        case "word" | "number" | "command_name" if not node.named_children:
            return None if _EXPANDS.search(text) else re.sub(r"\\(\n|.)", _escaped, text, flags=re.DOTALL)
        case "raw_string":
            return text[1:-1]
        case "string" if all(child.type == "string_content" for child in node.named_children):
            return re.sub(r'\\([\n"\\$`])', _escaped, text[1:-1])
        case "concatenation":
            parts = [_text_of(child) for child in node.children]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case _:
            return None


def _escaped(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]

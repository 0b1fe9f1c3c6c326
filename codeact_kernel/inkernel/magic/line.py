"""What stands behind `%agent`: options, then the task, which is taken as it is.

Comes in: the line. Goes out: options and the task.
"""

from __future__ import annotations

import argparse
import re
import shlex
from typing import Any, NoReturn

from codeact_kernel.inkernel.magic.link import AgentError

_TOKEN = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'])+""")

_QUESTION = re.compile(r"^([ \t]*)%agent[ \t]+(\S.*\?)[ \t]*(\n?)$")

HELP = """\
Let an agent work on a task: it writes Python into a kernel of its own and works on copies of your variables.

  %agent find the outliers in df             one line
  %%agent -n df,helper -o table              a whole cell: options on the first line, the task below, verbatim
  %agent fix                                 the notebook's last error, with the cells behind it

`%agent` again goes on with the same agent, which remembers; `%agent --new` begins afresh.
The notebook's stop button stops it; what it has is kept."""


_FLAG: dict[str, Any] = {"action": "store_true"}
_Option = tuple[str, str, dict[str, Any]]
_OPTIONS: dict[str, list[_Option]] = {
    "the task": [
        ("-m --model", "the model, as `codeact run --model` takes it", {"metavar": "M"}),
        ("-n --names", "names whose values the agent gets, as copies", {"metavar": "A,B"}),
        ("-o --output", "bind this name to the object handed back, else to the answer", {"metavar": "NAME"}),
        ("--describe", ("what the model is told of names that the task mentions: none, schema (the default:\ntypes, "
         "sizes, columns), or sample:N (N rows, too)"), {"metavar": "MODE", "default": "schema"}),
        ("--trust-objects", "let any objects come back, whose unpickling runs code of the agent's; else data", _FLAG),
        ("--new", "begin with a new agent", _FLAG),
        ("--rerun", "run it though the same was answered before, which else is shown again, free", _FLAG),
        ("--background", "do not wait: the next cells can run meanwhile; -o binds its name when it has ended", _FLAG),
    ],
    "the agent": [
        ("--base-url", "the endpoint", {"metavar": "URL"}),
        ("--protocol", "how the model writes blocks: tags, tools or json", {"metavar": "P"}),
        ("--tools", "a module, a .py file, or `builtin`; may be repeated", {"metavar": "T", "action": "append"}),
        ("--mcp", "a file that lists MCP servers", {"metavar": "FILE"}),
        ("--sandbox", "auto, none, limits, landlock or bwrap", {"metavar": "MODE"}),
        ("--allow-net", "let blocks use the network", _FLAG),
        ("--approve", "what is asked before it happens: auto, ask, deny-writes or rules", {"metavar": "MODE"}),
    ],
    "what a run may use": [
        ("--max-turns", "replies of the model", {"metavar": "N", "type": int}),
        ("--max-time", "90s, 10m, 2h", {"metavar": "D"}),
        ("--max-tokens", "200k, 2M", {"metavar": "N"}),
        ("--max-cost", "US dollars", {"metavar": "USD", "type": float}),
    ],
    "while it works, or after": [
        ("--steer", "tell the agent something", {"metavar": "TEXT"}),
        ("--wait", "wait for what goes on in the background", _FLAG),
        ("--stop", "stop the run; the agent can go on", _FLAG),
        ("--end", "end the agent, with its kernel and what it remembers", _FLAG),
        ("--replay", "show a recorded run again: its folder, or its run.ipynb; nothing runs", {"metavar": "FILE"}),
        ("--speed", "how many times as fast; 0 shows it at once", {"metavar": "N", "type": float, "default": 1.0}),
        ("--step", "wait for Enter before each turn", _FLAG),
        ("--sent", "what the model was sent: the newest request in full, or the Nth",
         {"metavar": "N", "nargs": "?", "const": 0, "type": int}),
        ("--doctor", "look whether all is there that an agent needs", _FLAG),
        ("--show", "show the latest run here", _FLAG),
        ("--yes", "allow what waits for a decision", _FLAG),
        ("--no", "refuse it", {"metavar": "WHY", "nargs": "?", "const": ""}),
    ],
}  # fmt: skip


class Parser(argparse.ArgumentParser):
    """Raises where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong."""
        raise AgentError(f"%agent: {message}. `%agent?` tells all options.")


def make_parser() -> Parser:
    """The options of `%agent`."""
    shape = argparse.RawTextHelpFormatter
    parser = Parser(prog="%agent", add_help=False, formatter_class=shape, usage=argparse.SUPPRESS)
    for title, options in _OPTIONS.items():
        group = parser.add_argument_group(title)
        for names, about, how in options:
            group.add_argument(*names.split(), help=about, **how)
    return parser


def read_line(line: str, parser: Parser) -> tuple[argparse.Namespace, str]:
    """Read what stands behind `%agent`.

    Args:
        line: It.
        parser: The options.

    Returns:
        The options, and the rest as it was written.

    Raises:
        AgentError: If an option is wrong.
    """
    tokens, rest = list[str](), line.strip()
    while rest.startswith("-"):
        token, rest = _first(rest)
        if token == "--":
            break
        tokens.append(token)
        found: Any = parser._option_string_actions.get(token)
        if "=" not in token and found is not None and found.nargs != 0:
            if not rest:
                break
            if found.nargs == "?" and (
                rest.startswith("-") or (token == "--sent" and not rest[:1].isdigit())
            ):
                continue
            value, rest = _first(rest)
            tokens.append(value)
    return parser.parse_args(tokens), rest


def questions(lines: list[str]) -> list[str]:
    """Keep IPython from taking a task that is a question (`%agent why is it empty?`) for a wish for help.

    Args:
        lines: A cell's lines, before IPython transforms them.
    """
    return [_QUESTION.sub(_called, line) for line in lines]


def _called(line: re.Match[str]) -> str:
    return f"{line[1]}get_ipython().run_line_magic('agent', {line[2]!r}){line[3]}"


def _first(text: str) -> tuple[str, str]:
    match = _TOKEN.match(text)
    if match is None:
        raise AgentError(f"%agent: a quotation mark is not closed in {text!r:.60}")
    try:
        token = "".join(shlex.split(match[0]))
    except ValueError:
        token = match[0]
    return token, text[match.end() :].lstrip()

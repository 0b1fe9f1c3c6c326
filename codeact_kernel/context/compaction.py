"""Compactions: what the model wrote down, or what the runtime keeps for it.

Comes in: the model's text, or the entries of a full window, and an inventory of what is alive. Goes out: a `Knowledge`
entry, which replaces every entry before it; and the request by which a model is asked to write one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence

from codeact_kernel.blocks import AgentBlock, Cancel, CodeBlock, Prose
from codeact_kernel.context.window import visible
from codeact_kernel.errors import ToolError
from codeact_kernel.events import Entry, Knowledge, Observation, Reply, Report, Task

_FORCED = (
    "(The runtime wrote this: the context was full and had not been compacted. What follows is the task and "
    "the latest turns, shortened. self.output(id) gives a block's whole output, self.history what was said before.)"
)
_TURN_SHARE = 4
"""A single entry gets at most a quarter of the room, so that several turns stay."""
_SHORTEST = 120
"""Characters below which nothing of an entry is kept."""


def compact(text: str, inventory: str = "") -> Knowledge:
    """Make the entry for `self.compact_knowledge(text)`.

    Args:
        text: What the model wrote down.
        inventory: What outlives it.

    Raises:
        ToolError: If the model wrote nothing: all that it knows would be gone. The text is for the model.
    """
    if not isinstance(text, str) or not text.strip():
        raise ToolError(
            "compact_knowledge takes a text with all that you still need to know; it replaces your context, "
            "and an empty one would leave you with nothing. Nothing was changed."
        )
    return Knowledge(text.strip(), inventory)


def summary_request(tokens: int) -> Observation:
    """Ask the model to write down what it needs, because its context is full.

    Args:
        tokens: About how long it may be.
    """
    text = (
        "Your context is full. Before you read on, write down all that you still need, in plain text and nothing else: "
        "the task, what is done, what you found, what comes next, which names hold what. It replaces this "
        "conversation, except the system prompt; variables, running blocks and agents stay. No code of this reply "
        f"runs. At most about {tokens:,} tokens."
    )
    return Observation((Report("reminder", text),))


def written_down(reply: Reply) -> str:
    """What a reply to `summary_request` says: its prose, or what it would have handed to `compact_knowledge`.

    Args:
        reply: The reply, of which nothing ran.

    Returns:
        The text; empty where the model wrote something else.
    """
    codes = [part.code for part in reply.parts if isinstance(part, CodeBlock)]
    handed = [text for code in codes for text in _handed_over(code)]
    prose = [part.text for part in reply.parts if isinstance(part, Prose)]
    return "\n".join(handed or prose).strip()


def _handed_over(code: str) -> list[str]:
    """What calls of `compact_knowledge` in code are given; its source where that is no plain text."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [code] if "compact_knowledge" in code else []
    names = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    given = [
        argument
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "compact_knowledge"
        for argument in (*node.args, *(keyword.value for keyword in node.keywords))
    ]
    return [_text_of(argument, names, code) for argument in given]


def _text_of(argument: ast.expr, names: Mapping[str, object], code: str) -> str:
    value: object = argument.value if isinstance(argument, ast.Constant) else None
    if isinstance(argument, ast.Name):
        value = names.get(argument.id)
    return value if isinstance(value, str) else ast.get_source_segment(code, argument) or code


def compact_by_force(
    entries: Sequence[Entry], inventory: str, budget: int, count: Callable[[str], int]
) -> Knowledge:
    """Compact a full window without the model: the last resort.

    What stays is what an earlier compaction says, the latest task, and of the turns after it the latest, each
    shortened in its middle. The transcript and the record keep all of it.

    Args:
        entries: The transcript's entries, oldest first.
        inventory: What outlives it.
        budget: Tokens that the text may have, the inventory not counted.
        count: Counts a text's tokens.
    """
    seen = visible(entries)
    tasks = [told(entry) for entry in seen if isinstance(entry, Task)]
    known = [told(entry) for entry in seen if isinstance(entry, Knowledge)]
    room = max(0, budget - count(_FORCED))
    parts = [_fit(text, room // _TURN_SHARE, count) for text in known]
    parts += [_fit(text, room // _TURN_SHARE, count) for text in tasks[-1:]]
    room -= sum(count(part) + 1 for part in parts)
    turns: list[str] = []
    for said in (told(entry) for entry in reversed(seen) if isinstance(entry, Reply | Observation)):
        text = _fit(said, min(room, budget // _TURN_SHARE), count)
        if not text:
            break
        turns.insert(0, text)
        room -= count(text) + 1
    body = "\n\n".join(part for part in (_FORCED, *parts, *turns) if part)
    return Knowledge(body, inventory)


def told(entry: Entry) -> str:
    """Write an entry as plain text, for whoever reads of it later.

    Args:
        entry: The entry.
    """
    match entry:
        case Task():
            return f"The task:\n{entry.text}"
        case Reply():
            return f"You wrote:\n{_said(entry)}"
        case Observation():
            return "You read:\n" + "\n".join(_told_report(report) for report in entry.reports)
        case Knowledge():
            return f"Known before:\n{entry.text}"


def _said(reply: Reply) -> str:
    """The words of a reply, with its blocks where those travelled as calls."""
    if not reply.calls:
        return reply.text
    pieces = [reply.text]
    for part in reply.parts:
        match part:
            case CodeBlock():
                pieces.append(f"[run_code {part.id}]\n{part.code}")
            case AgentBlock():
                pieces.append(f"[run_agent {part.id}]\n{part.task}")
            case Cancel():
                pieces.append(f"[cancel {part.id}]")
            case _:
                pass
    return "\n".join(piece for piece in pieces if piece)


def _told_report(report: Report) -> str:
    words: Iterable[str] = (
        report.kind,
        report.id or "",
        *(f"{name}={value}" for name, value in report.attrs),
    )
    return f"[{' '.join(word for word in words if word)}] {report.body}"


def _fit(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """Cut the middle out of a text until it has so many tokens; nothing where not even a little fits."""
    whole, keep = text, len(text)
    while (size := count(text)) > tokens:
        keep = min(keep - 1, int(keep * 0.9 * tokens / size))
        if keep < _SHORTEST:
            return ""
        head, tail = whole[: keep * 2 // 3], whole[len(whole) - keep // 3 :]
        text = f"{head}\n… ({len(whole) - len(head) - len(tail)} characters left out) …\n{tail}"
    return text

"""What a person reads of a run: blocks, results, figures, each as lines for a terminal.

Comes in: blocks, their ends, runs. Goes out: `Text` of rich, cleaned of all that a terminal would obey, and of
a long text its beginning or its end with an exact count of what is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

from codeact_kernel.blocks import AgentBlock, Block, BlockResult, ErrorOutput, format_duration
from codeact_kernel.cli.streams import clean
from codeact_kernel.controls import visible
from codeact_kernel.dialogue import in_the_end
from codeact_kernel.events import WakeUpSet
from codeact_kernel.messages import Usage
from codeact_kernel.runfiles import as_typed
from codeact_kernel.supervisor.output import as_text

if TYPE_CHECKING:
    from codeact_kernel.agent import Run
    from codeact_kernel.supervisor import LiveBlock

CODE_LINES = 10
"""Lines of a block's code that are shown, the first ones."""
OUTPUT_LINES = 6
"""Lines of a block's output that are shown, the last ones."""
ERROR_LINES = 4
"""Lines of a block's error that are shown, the last ones."""
TAIL = 8_000
"""Characters of a text that are looked at for its last lines."""


def told_block(name: str, block: Block) -> RenderableType:
    """Write a block's beginning: its id and its code.

    Args:
        name: Its id.
        block: The block.
    """
    return Group(Text(f"▸ {clean(name)}", style="bold"), *code_lines(block))


def told_result(result: BlockResult, calls: int = 0) -> RenderableType:
    """Write what came of a block: how it ended, and what it put out.

    Args:
        result: The block's end.
        calls: How many tools it has called.
    """
    good = result.status == "ok"
    head = Text(f"{'✓' if good else '✗'} {clean(result.id)}", style="green" if good else "red")
    facts: list[str] = [] if good else [result.status]
    facts.append(format_duration(result.duration))
    if calls:
        facts.append(f"{calls:,} tool call{'s'[: calls > 1]}")
    head.append(f"  {', '.join(facts)}", style="dim")
    lines = output_lines(result)
    if len(lines) == 1:
        return cut(Text.assemble(head, lines[0]))
    return Group(cut(head), *lines)


def told_wake_up(wake_up: WakeUpSet, now: float) -> Text:
    """Write what the run sleeps for.

    Args:
        wake_up: The next one.
        now: The time in seconds since the epoch.
    """
    left = format_duration(max(0.0, wake_up.due - now))
    return cut(Text(f"· sleeps, {left} to go  {clean(wake_up.note)}", style="dim"))


def told_live(block: LiveBlock, mark: str, now: float) -> Text:
    """Write what a block is doing.

    Args:
        block: The block.
        mark: What turns while it runs.
        now: The time in seconds since the epoch.
    """
    if block.started is None:
        return cut(
            Text.assemble(
                (f"· {clean(block.id)}", "cyan"),
                ("  waits for approval" if block.state == "waiting for approval" else "  waits", "dim"),
            )
        )
    took = format_duration(now - block.started)
    limit = f" of {format_duration(block.block.timeout)}" if block.block.timeout else ""
    line = Text.assemble((f"{mark} {clean(block.id)}", "cyan"), (f"  {took}{limit}  ", "dim"))
    return cut(line.append(clean(block.last_line)))


def told_end(run: Run) -> list[Text]:
    """Write why a run has ended, and what it has taken.

    Args:
        run: The run.
    """
    facts = [f"{run.turns} turn{'s'[: run.turns != 1]}", *told_usage(run.usage), format_duration(run.seconds)]
    return [
        *([Text(clean(run.message), style="yellow")] if run.message else []),
        Text(" · ".join(facts), style="dim"),
    ]


def told_usage(usage: Usage) -> list[str]:
    """Write tokens and money; what is not known is said to be so.

    Args:
        usage: What was used.
    """
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    tokens = f"{'about ' if usage.estimated else ''}{usage.total_tokens:,} tokens{cached}"
    if usage.cost is None:
        return [tokens, "cost unknown"]
    return [tokens, f"${usage.cost:.4f}" if usage.cost else "free"]


def told_record(path: Path) -> Text:
    """Write where a record is.

    Args:
        path: The notebook.
    """
    return Text(f"record: {clean(as_typed(path))}", style="dim", overflow="fold")


def code_lines(block: Block) -> list[Text]:
    """The first lines of what the model wrote, indented. Nothing of it is hidden: this is what runs.

    Args:
        block: The block.
    """
    text = visible(block.task if isinstance(block, AgentBlock) else block.code).expandtabs(4).strip("\n")
    lines = text.split("\n")
    shown = "\n".join(lines[:CODE_LINES])
    code = Text(shown) if isinstance(block, AgentBlock) else _highlighted(shown)
    rest = len(lines) - CODE_LINES
    folded = [Text(f"… {rest:,} more line{'s'[: rest > 1]}", style="dim")] if rest > 0 else []
    return [_indented(line) for line in (*code.split("\n"), *folded)]


def output_lines(result: BlockResult) -> list[Text]:
    """The last lines that a block put out and then those of its error, indented.

    Args:
        result: The block's end.
    """
    shown = in_the_end(result.outputs)
    text = as_text([output for output in shown if not isinstance(output, ErrorOutput)]).rstrip()
    lines = [line.rstrip() for line in clean(text[-TAIL:]).split("\n")][-OUTPUT_LINES:] if text else []
    left = text.count("\n") + 1 - len(lines) if text else 0
    error = clean((result.outcome.error or "")[-TAIL:]).rstrip()
    above = [Text(f"… {left:,} more line{'s'[: left > 1]}", style="dim")] if left else []
    failed = [Text(line, style="red") for line in error.split("\n")[-ERROR_LINES:]] if error else []
    return [_indented(line) for line in (*above, *map(Text, lines), *failed)]


def cut(text: Text) -> Text:
    """Keep a text on one line, however narrow the terminal is.

    Args:
        text: The text; it is changed.
    """
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _indented(text: Text) -> Text:
    return cut(Text("  ").append_text(text))


def _highlighted(code: str) -> Text:
    text = Syntax("", "python", theme="ansi_dark", background_color="default").highlight(code)
    text.rstrip()
    return text

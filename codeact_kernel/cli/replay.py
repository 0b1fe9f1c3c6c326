"""`codeact replay`: a recorded run is shown again, or its blocks are executed again and compared.

Comes in: a record. Goes out: the run as it went, at a speed; or a report of which blocks came out otherwise, and an
exit code that says whether one did.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codeact_kernel.cli.choices import Choices, choosing
from codeact_kernel.cli.resume import TrustRecord
from codeact_kernel.cli.streams import clean
from codeact_kernel.errors import ConfigError, Diverged

if TYPE_CHECKING:
    from codeact_kernel.agent import Compared, RecordedRun
    from codeact_kernel.agent.recorded.comparing import Verdict

RecordPlace = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A run's folder, its journal.jsonl or its run.ipynb, of anybody."),
]
Play = Annotated[
    bool, typer.Option("--play", help="Show the run as it went; nothing runs. It is what happens anyhow.")
]
Speed = Annotated[
    float, typer.Option(metavar="N", min=0.0, help="How many times as fast it is shown; 0 shows it at once.")
]
Step = Annotated[bool, typer.Option("--step", help="Wait for Enter before each turn.")]
Execute = Annotated[
    bool,
    typer.Option(
        "--execute",
        help="Run the blocks again, in a fresh kernel, and compare what comes out. Tools give again what they gave.",
    ),
]
LiveTools = Annotated[
    bool, typer.Option("--live-tools", help="Call the tools that --tools names, instead of that.")
]
Volatile = Annotated[
    list[str] | None,
    typer.Option(
        metavar="REGEX",
        help="What may differ, besides times, durations, addresses and the like. May be given more than once.",
    ),
]
ForkAt = Annotated[
    int | None,
    typer.Option(
        metavar="TURN",
        help="Begin a run of your own: what was said before this turn is said again, with tools that give what they "
        "gave, and from it on the model goes on.",
    ),
]
_LISTED = ("differs", "missing", "new")


@choosing("protocol", "lease", "then")
def replay(
    file: RecordPlace,
    play: Play = False,
    speed: Speed = 1.0,
    step: Step = False,
    execute: Execute = False,
    live_tools: LiveTools = False,
    volatile: Volatile = None,
    trust_record: TrustRecord = False,
    fork_at: ForkAt = None,
    *,
    chosen: Choices,
) -> int:
    """Show a recorded run again, or execute its blocks again and compare.

    Without --execute or --fork-at nothing runs. With them, blocks run in the current folder, in a sandbox, whatever the
    record says of those. The exit code of --execute is 0 where all came out as recorded or differs only in what is
    volatile, else 1; that of --fork-at is as for `codeact run`.
    """
    from codeact_kernel.agent import RecordedRun

    if play + execute + (fork_at is not None) > 1:
        raise ConfigError(
            "--play shows a run, --execute runs its blocks, --fork-at goes on: give one of them"
        )
    recorded = RecordedRun.load(file)
    if fork_at is not None:
        _trusted(recorded, trust_record)
        return _fork(recorded, fork_at, chosen)
    if execute:
        _trusted(recorded, trust_record)
        return _execute(recorded, chosen, volatile or [], live_tools)
    return show(recorded, speed, _enter if step else None)


def show(
    recorded: RecordedRun,
    speed: float,
    step: Callable[[], object] | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> int:
    """Show a run as it went.

    Args:
        recorded: The run.
        speed: How many times as fast; 0 does not wait at all.
        step: Called before each turn but the first, instead of waiting; None waits.
        sleep: Waits.
    """
    from codeact_kernel.agent import moments
    from codeact_kernel.cli.console import TerminalConsole
    from codeact_kernel.cli.progress import Progress
    from codeact_kernel.events import RunEnded, RunStarted, TurnStarted

    console = TerminalConsole(highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty())
    progress = Progress(console.print, str(recorded.about.options.get("protocol", "tags")))
    before: float | None = None
    for at, event in moments(recorded):
        if step is not None:
            if isinstance(event, TurnStarted) and event.turn > 1:
                step()
        elif speed and before is not None and at > before:
            sleep((at - before) / speed)
        before = at
        if isinstance(event, RunStarted):
            console.print(f"task: {clean(event.task)}")
        progress(event)
        if isinstance(event, RunEnded):
            console.print(clean(event.answer or event.message))
    return 0


def _enter() -> None:
    print("— Enter —", end="", file=sys.stderr, flush=True)
    if not sys.stdin.readline():
        raise KeyboardInterrupt


def _trusted(recorded: RecordedRun, trusted: bool) -> None:
    """Ask before what a stranger has written runs."""
    from codeact_kernel.cli.screens import somebody_is_there
    from codeact_kernel.record import is_ours

    notebook = recorded.notebook
    if trusted or is_ours(notebook):
        return
    said = f"{notebook} was not written by this installation of yours, or somebody has changed it"
    if somebody_is_there():
        print(
            clean(f"{said}.\nIts blocks would run here. Do you trust it? [y/N] "),
            end="",
            file=sys.stderr,
            flush=True,
        )
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise ConfigError(
        f"{said}; --execute runs its blocks: look at it, and say --trust-record if you trust it"
    )


def _execute(recorded: RecordedRun, chosen: Choices, volatile: list[str], live_tools: bool) -> int:
    from codeact_kernel.agent import compare, divergence, execute
    from codeact_kernel.cli.loop import Signals, in_loop
    from codeact_kernel.cli.streams import answers, masked

    fields = chosen.agent_fields()
    with answers() as out, tempfile.TemporaryDirectory(prefix="codeact-replay-") as scratch:
        folder = Path(chosen.run_dir) if chosen.run_dir else Path(scratch) / "run"

        async def work(_: Signals) -> int:
            again = await execute(recorded, fields, folder, live_tools=live_tools)
            try:
                found = compare(recorded, again, volatile)
                parted = divergence(recorded, again, volatile)
            except ValueError as error:
                raise ConfigError(f"--volatile: {error}") from error
            out.write(masked(report(found, parted)))
            return 1 if any(block.verdict in _LISTED for block in found) else 0

        return in_loop(work)


def _fork(recorded: RecordedRun, turn: int, chosen: Choices) -> int:
    from codeact_kernel.agent import fork
    from codeact_kernel.cli.conduct import working
    from codeact_kernel.cli.loop import Signals, in_loop
    from codeact_kernel.cli.screens import open_screen
    from codeact_kernel.cli.streams import answers

    with answers() as out:
        fields = chosen.agent_fields()
        tasks, make = fork(recorded, turn, fields)
        screen = open_screen(str(recorded.about.options.get("protocol", "tags")))

        async def work(signals: Signals) -> int:
            code = 0
            async with working(fields, screen, signals, out, make=make) as conductor:
                for task in tasks:
                    code = await conductor.work(task)
            return code

        return in_loop(work)


def difference(parted: Diverged) -> str:
    """What a replayed model would have read otherwise, line by line.

    Args:
        parted: Where the conversation is no longer as recorded.
    """
    from codeact_kernel.agent import Compared

    texts = Compared(parted.turn, "what was read", "differs", parted.recorded, parted.now)
    return "\n".join(f"    {line}" for line in texts.difference())


def report(found: list[Compared], parted: Compared | None = None) -> str:
    """What a comparison has found, for a reader.

    Args:
        found: The blocks.
        parted: Where the conversations part; None where they do not.
    """
    lines = []
    for block in found:
        if block.verdict in _LISTED:
            lines.append(f"turn {block.turn}, {block.id}: {block.verdict}")
            lines += [f"    {line}" for line in block.difference()]
    if parted is not None:
        lines.append(f"turn {parted.turn}: from here on its model would have read something else")
        lines += [f"    {line}" for line in parted.difference()]
    counts = Counter(block.verdict for block in found)
    said: dict[Verdict, str] = {
        "same": "the same",
        "volatile": "the same but for what is volatile",
        "differs": "other than recorded",
    }
    said |= {"missing": "not run this time", "new": "not in the record"}
    lines += [f"{counts[verdict]} {words}" for verdict, words in said.items() if counts[verdict]]
    return clean("\n".join(lines or ["there are no blocks"]))

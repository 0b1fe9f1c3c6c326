"""`codeact runs`: what runs there are in a workspace, and the removal of old ones.

Comes in: a workspace, an age. Goes out: a line for each run on stdout, or as JSON; the removal, after a question.
"""

from __future__ import annotations

import json as to_json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codeact_kernel.cli import options
from codeact_kernel.cli.choices import read_duration
from codeact_kernel.cli.helping import example
from codeact_kernel.cli.streams import clean
from codeact_kernel.errors import ConfigError

if TYPE_CHECKING:
    from codeact_kernel.agent import KnownRun

runs = typer.Typer()

Json = Annotated[bool, typer.Option("--json", help="Print each run as a line of JSON.")]
OlderThan = Annotated[
    str, typer.Option(metavar="AGE", help="How long ago something last happened in them: 12h, 30d, 8w.")
]
Keep = Annotated[int, typer.Option(metavar="N", min=0, help="How many of the latest stay in any case.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
_UNITS = {"d": 86_400.0, "w": 604_800.0}
_TASK = 48
"""Characters of a task that are shown: what is left of a line of 120."""


@runs.callback(invoke_without_command=True)
def listed(context: typer.Context, workspace: options.Workspace = ".", json: Json = False) -> None:
    """List the runs of a workspace, the latest first: when, state, turns, tokens, cost, size, folder, task.

    A run is answered, or stopped (limit, cancelled, failed), or running, with its process; crashed is one whose process
    is gone before it had come to an end. `codeact resume` goes on with any that is not running.
    """
    if context.invoked_subcommand is not None:
        return
    from codeact_kernel.agent import known_runs

    for run in known_runs(Path(workspace).expanduser()):
        typer.echo(to_json.dumps(_fields(run)) if json else _line(run))


@runs.command("prune", epilog=example("codeact runs prune --older-than 30d --keep 20"))
def prune(older_than: OlderThan, workspace: options.Workspace = ".", keep: Keep = 0, yes: Yes = False) -> int:
    """Remove old runs, and what processes have left that are gone: half-written files, temporary folders.

    Runs that a process works on stay. It shows what would go, and asks.
    """
    from codeact_kernel.agent import known_runs, leftovers, old_runs, remove_leftover, remove_run

    now, age = time.time(), _age(older_than)
    there = known_runs(Path(workspace).expanduser())
    old = old_runs(there, age, keep, now)
    left = list(leftovers([run for run in there if run not in old], now))
    if not old and not left:
        typer.echo("nothing to remove", err=True)
        return 0
    _show(old, left)
    if not yes and not _confirmed():
        return 0
    gone = [run for run in old if remove_run(run)]
    for path in left:
        remove_leftover(path)
    typer.echo(f"{len(gone)} runs and {len(left)} leftovers were removed", err=True)
    return 0 if len(gone) == len(old) else 1


def _show(old: Sequence[KnownRun], left: Sequence[Path]) -> None:
    for run in old:
        typer.echo(_line(run), err=True)
    for path in left:
        typer.echo(clean(f"left over: {path}"), err=True)


def _confirmed() -> bool:
    from codeact_kernel.cli.screens import somebody_is_there

    if not somebody_is_there():
        raise ConfigError("nobody is here to be asked: say --yes to remove these")
    print("Remove them? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _age(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([dw])", text.strip())
    if match:
        return float(match[1]) * _UNITS[match[2]]
    return read_duration("--older-than", text) or 0.0


def _fields(run: KnownRun) -> dict[str, Any]:
    about = {"folder": str(run.folder), "state": run.state, "pid": run.pid, "touched": run.touched}
    return run.summary | about | {"size": run.size}


def _line(run: KnownRun) -> str:
    about = run.summary
    tokens = about.get("tokens") or {}
    used = sum(tokens.get(name, 0) for name in ("input", "output"))
    cost = about.get("cost")
    state = f"{run.state} ({run.pid})" if run.pid else run.state
    task = " ".join(str(about.get("task", "")).split())
    shown = (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(run.touched)),
        f"{state:<17}",
        f"{about.get('turns', '?'):>4} turns",
        f"{used:>9,} tokens",
        f"{'' if cost is None else f'${cost:.2f}':>7}",
        f"{run.size / 1e6:>7.1f} MB",
        run.folder.name,
        task if len(task) <= _TASK else f"{task[:_TASK]}…",
    )
    return clean("  ".join(shown)).replace("\n", " ")

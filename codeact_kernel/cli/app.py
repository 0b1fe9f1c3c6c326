"""The commands of `codeact`, and what it exits with.

Comes in: arguments. Goes out: an exit code, and for what went wrong one line that says what to do.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from codeact_kernel._version import __version__
from codeact_kernel.cli.audit import audit
from codeact_kernel.cli.chat import chat
from codeact_kernel.cli.demo import demo
from codeact_kernel.cli.diff import diff
from codeact_kernel.cli.doctor import doctor
from codeact_kernel.cli.export import export
from codeact_kernel.cli.helping import example, print_help
from codeact_kernel.cli.install import install
from codeact_kernel.cli.mcp import mcp
from codeact_kernel.cli.models import model
from codeact_kernel.cli.replay import difference, replay
from codeact_kernel.cli.resume import resume
from codeact_kernel.cli.run import run
from codeact_kernel.cli.runs import runs
from codeact_kernel.cli.stats import stats
from codeact_kernel.cli.streams import CleanFormatter, clean, complain, masked
from codeact_kernel.cli.trust import trust
from codeact_kernel.cli.watch import watch
from codeact_kernel.errors import CodeactError, Diverged

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for a command line that it cannot read; it has no name of its own in every version."""

app = typer.Typer(
    add_completion=False,
    epilog=example("codeact demo      (needs no key: the model runs on this machine)"),
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def codeact(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, and do nothing else.")
    ] = False,
) -> None:
    """An agent that acts by writing Python into a real IPython kernel."""
    if version:
        typer.echo(f"codeact-kernel {__version__}")
        raise typer.Exit
    print_help(context)


app.command(
    epilog=example('codeact run --model gpt-5-mini "Which of the CSV files here has the most rows?"')
)(run)
app.command(epilog=example("codeact resume .codeact/runs/20261201-120000-count-rows --max-turns 40"))(resume)
app.command(epilog=example("codeact replay run.ipynb --speed 10", "codeact replay run.ipynb --execute"))(
    replay
)
app.command(epilog=example("codeact diff theirs/run.ipynb mine"))(diff)
app.command(
    epilog=example(
        "codeact export run.ipynb --format html --output run.html",
        "codeact export .codeact/runs/* --format messages --where passed --output train.jsonl",
    )
)(export)
app.command(epilog=example("codeact doctor", "codeact doctor --model local"))(doctor)
app.command(epilog=example("codeact trust .codeact/runs/20261201-120000-plot-the-rows"))(trust)
app.command(epilog=example("codeact stats", "codeact stats runs-of-last-week --output stats.html"))(stats)
app.command(epilog=example("codeact watch", "codeact watch .codeact/runs/20261201-120000-count-rows --once"))(
    watch
)
app.command(epilog=example("codeact chat --model gpt-5-mini"))(chat)
app.command(epilog=example("codeact demo"))(demo)
app.command(epilog=example("codeact install --user"))(install)
app.command(epilog=example("codeact mcp --workspace ~/project", "codeact mcp --http 8000"))(mcp)
app.add_typer(runs, name="runs")
app.add_typer(model, name="model")
app.add_typer(audit, name="audit")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `codeact`.

    Args:
        arguments: What stands behind it on the command line; None takes the process's own.

    Returns:
        The exit code.
    """
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(CleanFormatter())
    try:
        code = typer.main.get_command(app).main(arguments, prog_name="codeact", standalone_mode=False)
    except UsageError as error:
        complain(_usage(error))
        return 2
    except CodeactError as error:
        complain(error.message)
        if isinstance(error, Diverged):
            print(clean(masked(difference(error))), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        complain("it was stopped")
        return 130
    except BrokenPipeError:
        # Nobody reads on; Python's own flush at the exit must not fail, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception:
        # A bug of ours. Python itself would print it, and the values that an error's text holds, as they are.
        if arguments is not None:
            raise
        print(clean(masked(traceback.format_exc())), file=sys.stderr, end="")
        return 1
    return code if isinstance(code, int) else 0


def _usage(error: Exception) -> str:
    """One line of a usage error: typer's own words, and where the right ones stand."""
    context = getattr(error, "ctx", None)
    words = str(getattr(error, "message", error)) if context is None else str(error.format_message())  # type: ignore[attr-defined]
    command = context.command_path if context is not None else "codeact"
    return f"{words[:1].lower()}{words[1:].rstrip('.')}; see `{command} --help`"

"""`codeact export`: recorded runs in other forms.

Comes in: records. Goes out: one page, a program, or samples to train a model on, on stdout or into a file.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from codeact_kernel.cli.streams import complain, written
from codeact_kernel.errors import ConfigError

if TYPE_CHECKING:
    from codeact_kernel.agent import RecordedRun, Sample

Records = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="Runs' folders, their journals or notebooks, of anybody."),
]
Format = Annotated[
    str,
    typer.Option(
        metavar="messages|sharegpt|script|html|markdown|ipynb",
        help="Samples for fine-tuning, as Chat Completions or as ShareGPT has them; a Python program of the blocks "
        "that mattered; a page; or the notebook again.",
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="PATH", help="The file; else it goes to stdout.")
]
NoSystem = Annotated[bool, typer.Option("--no-system", help="Of samples: leave the system prompt out.")]
Where = Annotated[
    str,
    typer.Option(
        metavar="all|answered|passed",
        help="Of which runs there are samples: passed are those with a goal that was met.",
    ),
]
Validation = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        min=0.0,
        max=1.0,
        help="The part of the runs whose samples go to PATH with .validation before its ending.",
    ),
]
NoOutputs = Annotated[
    bool, typer.Option("--no-outputs", help="Of a page or a notebook: leave out what blocks put out.")
]
_OF_ONE = ("html", "markdown", "script", "ipynb")


def export(
    files: Records,
    format: Format,  # noqa: A002 - its name on the command line
    output: Output = None,
    no_outputs: NoOutputs = False,
    no_system: NoSystem = False,
    where: Where = "all",
    validation: Validation = 0.0,
) -> int:
    """Write recorded runs in another form.

    Secrets are masked in a record already. Nothing of a record runs.
    """
    from codeact_kernel.agent import RecordedRun, samples
    from codeact_kernel.agent.recorded import training as kinds

    if where not in get_args(kinds.Where):
        raise ConfigError(f"--where {where}: choose all, answered or passed")
    if format in _OF_ONE:
        if len(files) != 1:
            raise ConfigError(f"--format {format} takes one run")
        written(_page(RecordedRun.load(files[0]), format, not no_outputs), output)
        return 0
    if format not in ("messages", "sharegpt"):
        raise ConfigError(f"--format {format}: choose messages, sharegpt, script, html, markdown or ipynb")
    if validation and output is None:
        raise ConfigError("--validation makes two files: say --output")
    faults: Counter[str] = Counter()
    made = samples(
        map(RecordedRun.load, files),
        sharegpt=format == "sharegpt",
        system=not no_system,
        where=cast("kinds.Where", where),
        validation=validation,
        left_out=lambda fault: faults.update([fault]),
    )
    _write_samples(list(made), output, bool(validation))
    for fault, count in faults.items():
        complain(f"left out {count}, which a trainer would refuse: {fault}")
    return 0


def _page(run: RecordedRun, kind: str, outputs: bool) -> str:
    from codeact_kernel.agent import script
    from codeact_kernel.record import html_page, markdown_page, notebook_text, without_outputs

    if kind == "script":
        return script(run)
    notebook = run.to_notebook() if outputs else without_outputs(run.to_notebook())
    writers = {"html": html_page, "markdown": markdown_page, "ipynb": notebook_text}
    return writers[kind](notebook)


def _write_samples(made: list[Sample], output: Path | None, is_split: bool) -> None:
    train = [sample for sample in made if not sample.is_validation]
    written("".join(f"{sample.line}\n" for sample in train), output)
    said = f"for training {_counted(train)}"
    if output is not None and is_split:
        held = [sample for sample in made if sample.is_validation]
        written("".join(f"{s.line}\n" for s in held), output.with_suffix(f".validation{output.suffix}"))
        said += f"; for validation {_counted(held)}"
    complain(said)


def _counted(made: list[Sample]) -> str:
    return f"{len(made)} sample{'s'[: len(made) != 1]}, {sum(sample.tokens for sample in made):,} tokens"

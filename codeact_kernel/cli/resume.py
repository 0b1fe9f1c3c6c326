"""`codeact resume`: a run goes on where it has stopped, or a further task is worked on.

Comes in: a run's folder or notebook; options that are not as they were. Goes out: what `codeact run` gives, into the
same record.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codeact_kernel.cli.choices import Choices, choosing
from codeact_kernel.cli.run import Json

if TYPE_CHECKING:
    from codeact_kernel.agent import Past

RunPlace = Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder, or its run.ipynb.")]
Further = Annotated[
    str | None,
    typer.Argument(
        metavar="TASK",
        help="A further task for a run that is answered; for one that is not, a note that its model reads first.",
    ),
]
Workspace = Annotated[
    str | None, typer.Option(metavar="DIR", help="The folder in which blocks run, where it has moved.")
]
TrustRecord = Annotated[
    bool,
    typer.Option(
        "--trust-record",
        help="Go on though this installation of yours did not write the record, or not all of it.",
    ),
]
FromNotebook = Annotated[
    bool,
    typer.Option(
        "--from-notebook",
        help="Read run.ipynb in the place of the journal: where that is lost, or the notebook was edited.",
    ),
]
_QUESTION = "A resume does what the record says. Do you trust it? [y/N] "


@choosing("run_dir", "then")
def resume(
    run: RunPlace,
    task: Further = None,
    *,
    chosen: Choices,
    workspace: Workspace = None,
    from_notebook: FromNotebook = False,
    trust_record: TrustRecord = False,
    json: Json = False,
) -> int:
    """Go on with a run, whatever has stopped it: a limit, Ctrl-C, an endpoint that failed, a crash, a power cut.

    It goes on with its next turn, in the same record, as it was asked to be; options that are given count over that.
    What ran when it stopped is not run again: the model is told what is known of it, and decides. Limits count what the
    run has used before. Exit codes are those of `codeact run`.
    """
    given = chosen.said() | ({} if workspace is None else {"workspace": workspace})
    past = _open(run, trusted=trust_record, from_notebook=from_notebook)
    try:
        return _work(past, task, _chosen(past, given), given, json)
    finally:
        past.close()


def _open(run: Path, *, trusted: bool, from_notebook: bool) -> Past:
    """Open the run; at a terminal a record that is not known to be the user's is asked about."""
    from codeact_kernel.agent import UntrustedRecord, open_past
    from codeact_kernel.cli.screens import somebody_is_there
    from codeact_kernel.cli.streams import complain

    try:
        return open_past(run, trusted=trusted, from_notebook=from_notebook)
    except UntrustedRecord as untrusted:
        if not somebody_is_there():
            raise
        complain(untrusted.message)
        print(_QUESTION, end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise
        return open_past(run, trusted=True, from_notebook=from_notebook)


def _chosen(past: Past, given: Mapping[str, Any]) -> Choices:
    """What the run was asked to be, and over that what is given now."""
    had = past.options
    kept = past.now.options.get("kept", {})
    before = Choices(
        model=had.get("model"),
        base_url=had.get("base_url"),
        protocol=had.get("protocol"),
        workspace=had.get("workspace", "."),
        tools=kept.get("tools"),
        kernel=had.get("kernel"),
        python=had.get("python"),
        env=had.get("env"),
        max_turns=had.get("max_turns"),
        max_time=_text(had.get("max_time")),
        max_tokens=_text(had.get("max_tokens")),
        max_cost=had.get("max_cost"),
        max_memory=_text(had.get("max_memory")),
        vision_model=had.get("vision"),
        fallback_model=had.get("fallback"),
        patience=_text(had.get("patience")),
        lease=_text(had.get("lease")),
        mcp=had.get("mcp"),
        dry_run=bool(had.get("dry_run")),
        max_calls=had.get("max_calls"),
        approve=had.get("approve"),
        sandbox=had.get("sandbox"),
        sandbox_min=had.get("sandbox_min"),
        allow_net=bool(had.get("allow_net")),
        allow_host=had.get("allow_hosts"),
        allow_read=had.get("allow_read"),
    )
    return replace(before, **given)


def _text(value: float | None) -> str | None:
    """A value as it would be typed."""
    return None if value is None else str(value)


def _work(
    past: Past,
    task: str | None,
    chosen: Choices,
    given: Mapping[str, Any],
    events: bool,
) -> int:
    from codeact_kernel.agent import Agent
    from codeact_kernel.cli.conduct import working
    from codeact_kernel.cli.loop import Signals, in_loop
    from codeact_kernel.cli.screens import Screen, open_screen
    from codeact_kernel.cli.streams import answers, complain

    last = past.transcript.runs[-1]
    answered = last.stop == "answered"
    with answers() as out:
        if answered and task is None:
            past.mend()
            complain("this run is answered; write a further task behind it to go on")
            out.write((last.end and last.end.answer) or "")
            return 0
        fields = chosen.agent_fields()
        screen = Screen() if events else open_screen(chosen.protocol or fields["settings"].protocol)
        make = partial(Agent.resume, past, given=frozenset(given))

        async def work(signals: Signals) -> int:
            async with working(fields, screen, signals, out, events=events, make=make) as conductor:
                if not answered and task is not None:
                    conductor.agent.steer(task)
                return await conductor.work(task if answered else None)

        return in_loop(work)

"""`codeact run`: one task, from the command line to an exit code.

Comes in: a task and options. Goes out: the answer, or the events as JSON, on stdout; progress and reasons on
stderr; the record.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from codeact_kernel.cli.choices import Choices, choosing
from codeact_kernel.errors import ConfigError

TaskText = Annotated[
    str | None,
    typer.Argument(
        metavar="TASK",
        help="What to do, in words; `-` reads it from stdin. Not needed with `replay:FILE`, which has one.",
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print what happens to stdout, one event a line, instead of the answer."),
]
ShowPrompt = Annotated[
    bool, typer.Option("--show-prompt", help="Print the system prompt of such a run, and do nothing else.")
]

Goal = Annotated[
    bool,
    typer.Option(
        "--goal",
        help="The task is a standing goal: the run goes on after answers, until the model says what shows that it is "
        "met, or a limit is reached.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="COMMAND",
        help="A standing goal that is met once this command succeeds; it is run in the workspace after each answer, "
        "and the model reads what it prints.",
    ),
]


@choosing()
def run(
    task: TaskText = None,
    *,
    chosen: Choices,
    goal: Goal = False,
    until: Until = None,
    json: Json = False,
    show_prompt: ShowPrompt = False,
) -> int:
    """Let a model work on a task by writing Python.

    The answer goes to stdout, everything else to stderr. Ctrl-C cancels the blocks that run and asks what to do;
    twice, it stops the run. The exit code is 0 for an answer, 1 if the model, the kernel or a file failed, 2 if the
    command line, the environment or the settings are wrong, 3 at a limit, 130 if you stopped it.
    """
    if show_prompt:
        return _show_prompt(chosen)
    if until is not None and not until.strip():
        raise ConfigError("--until takes a command: --until 'pytest -q'")
    return _work(chosen, _read_task(task, chosen.model), json, goal=goal, until=until)


def _read_task(task: str | None, model: str | None) -> str:
    if task == "-":
        from codeact_kernel.cli.stdin import read_all

        task = read_all()
    kind, _, record = (model or "").partition(":")
    if task is None and kind == "replay" and not record.endswith(".jsonl"):
        from codeact_kernel.agent import RecordedRun

        return RecordedRun.load(record).transcript.runs[0].start.task
    if task is None or not task.strip():
        raise ConfigError("there is no task: write it behind the options, or `-` to read it from stdin")
    return task


def _show_prompt(chosen: Choices) -> int:
    from codeact_kernel.agent import Options, house, plan, write_prompt
    from codeact_kernel.cli.loop import Signals, in_loop
    from codeact_kernel.cli.streams import answers, masked
    from codeact_kernel.kernels import sandbox_for_model

    with answers() as out:
        options = Options(**chosen.agent_fields())
        wanted = plan(options)

        async def show(_: Signals) -> int:
            launch, sandbox = await house(options, wanted)
            walls = sandbox_for_model(sandbox, launch.provisioner)
            out.write(masked(write_prompt(options, wanted, launch, walls=walls) or ""))
            return 0

        return in_loop(show)


def _work(chosen: Choices, task: str, events: bool, **how: Any) -> int:
    from codeact_kernel.cli.conduct import working
    from codeact_kernel.cli.loop import Signals, in_loop
    from codeact_kernel.cli.screens import Screen, open_screen
    from codeact_kernel.cli.streams import answers

    with answers() as out:
        fields = chosen.agent_fields()
        screen = Screen() if events else open_screen(chosen.protocol or fields["settings"].protocol)

        async def work(signals: Signals) -> int:
            async with working(fields, screen, signals, out, events=events) as conductor:
                return await conductor.work(task, **how)

        return in_loop(work)

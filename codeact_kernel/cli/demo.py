"""`codeact demo`: what this is, in one screen, with no key.

Comes in: which weights. Goes out: a task, the block that a real model writes for it, what a real kernel makes of
that block, and the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from codeact_kernel.errors import ConfigError

if TYPE_CHECKING:
    from codeact_kernel.cli.loop import Signals

TASK = "What is 2 to the power of 20?"
"""A task that the smallest model which is of any use does by a block; measured."""
LIMITS = {"max_turns": 6, "max_time": 300.0}
"""A small model that has lost its way goes on for good."""

Model = Annotated[str, typer.Option(metavar="M", help="The model; `local` is one that runs on this machine.")]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="0.5b|1.5b|135m",
        help="Which weights the local model has. Without it 0.5b; 1.5b is better and slower, 135m mostly too small.",
    ),
]


def demo(model: Model = "local", weights: Weights = None) -> int:
    """Watch a model solve a small task.

    By default the model runs on this machine: no key is needed, and its weights (491 MB) are fetched the first time.
    """
    if weights is not None and model != "local":
        raise ConfigError("--weights goes with --model local")
    from codeact_kernel.agent import Settings
    from codeact_kernel.cli.conduct import working
    from codeact_kernel.cli.loop import in_loop
    from codeact_kernel.cli.story import Story
    from codeact_kernel.cli.streams import answers

    with answers() as out:
        name = _fetched(weights or "0.5b") if model == "local" else model

        async def work(signals: Signals) -> int:
            fields = {"model": name, "settings": Settings(), **LIMITS}
            async with working(fields, Story(), signals, out) as conductor:
                return await conductor.work(TASK)

        return in_loop(work)


def _fetched(weights: str) -> str:
    """Make sure that a local model is here; returns what `--model` calls it."""
    from codeact_kernel.cli.models import fetch_shown
    from codeact_kernel.model.catalogue import MODELS
    from codeact_kernel.model.local import check_runtime
    from codeact_kernel.model.weights import locate

    if weights not in MODELS:
        raise ConfigError(f"there are no weights {weights!r}: choose {', '.join(MODELS)}")
    check_runtime()
    if locate(weights) is None:
        fetch_shown(weights)
    return f"local:{weights}"

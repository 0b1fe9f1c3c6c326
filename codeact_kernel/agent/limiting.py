"""What a run may use, as it is chosen, and as people and code read of it.

Comes in: what the caller and the settings say; the budget of a run. Goes out: limits; `self.budget`; a line of the
prompt; how a run that has reached a limit is gone on with.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from codeact_kernel.agent.config import Settings
from codeact_kernel.agent.kin import Tree
from codeact_kernel.agent.options import LIMIT_FIELDS, Options
from codeact_kernel.agent.past import Past
from codeact_kernel.blocks import parse_duration
from codeact_kernel.errors import ConfigError, LimitReached
from codeact_kernel.events import Spent
from codeact_kernel.policy import Budget, Limits, amount
from codeact_kernel.runfiles import as_typed
from codeact_kernel.sizes import parse_count

_PLACEHOLDERS = {"seconds": "D", "cost": "USD"}


def limits_of(options: Options, settings: Settings) -> Limits:
    """What each run of an agent may use.

    Args:
        options: What the caller wants.
        settings: What holds where the caller says nothing.

    Raises:
        ConfigError: If a limit is none.
    """
    said = Limits(settings.max_tokens, settings.max_cost, settings.max_time, settings.max_turns)
    return with_chosen(said, options.max_turns, options.max_time, options.max_tokens, options.max_cost)


def with_chosen(
    limits: Limits,
    max_turns: int | None,
    max_time: str | float | None,
    max_tokens: str | int | None,
    max_cost: float | None,
) -> Limits:
    """Put what is chosen in place of what limits say; None is not chosen.

    Args:
        limits: What holds where nothing is chosen.
        max_turns: Replies.
        max_time: "2h", or seconds.
        max_tokens: "200k", or a number.
        max_cost: US dollars.

    Raises:
        ConfigError: If one of them is no limit.
    """
    try:
        chosen: dict[str, Any] = {
            "turns": max_turns,
            "seconds": None if max_time is None else parse_duration(str(max_time)),
            "tokens": None if max_tokens is None else parse_count(str(max_tokens)),
            "cost": max_cost,
        }
    except ValueError as error:
        raise ConfigError(f"a limit of the run: {error}") from error
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if wrong := [name for name, value in chosen.items() if not 0 < value < float("inf")]:
        raise ConfigError(f"the limit of {wrong[0]} must be above zero, and is {chosen[wrong[0]]}")
    return replace(limits, **chosen)


def patience_of(options: Options, settings: Settings) -> float:
    """Seconds for which a model that does not answer is tried again.

    Args:
        options: What the caller wants.
        settings: What holds where the caller says nothing.

    Raises:
        ConfigError: If it is no length of time.
    """
    try:
        if options.patience is not None:
            return parse_duration(str(options.patience))
    except ValueError as error:
        raise ConfigError(f"patience: {error}") from error
    return float("inf") if settings.patience is None else settings.patience


def lease_of(options: Options, settings: Settings) -> float:
    """Seconds for which the kernel outlives a host that was killed; 0 for not at all.

    Args:
        options: What the caller wants. A run without a record is one that nobody can go on with.
        settings: What holds where the caller says nothing.

    Raises:
        ConfigError: If it is no length of time.
    """
    lease = options.lease
    if options.run_dir is False or lease == "none":
        return 0.0
    try:
        return (settings.lease or 0.0) if lease is None else parse_duration(str(lease))
    except ValueError as error:
        raise ConfigError(f"lease: {error}") from error


def spent_before(past: Past) -> Spent:
    """What the last run has used in earlier processes.

    Args:
        past: What they have left. A notebook does not tell what was broken off; the journal does.
    """
    run = past.transcript.runs[-1]
    turns = sum(turn.reply is not None for turn in run.turns)
    spent = run.spent if run.spent.turns else Spent(past.transcript.usage - run.before, turns)
    return replace(spent, seconds=past.remains.worked)


def for_prompt(limits: Limits) -> str:
    """The line of the system prompt about limits; empty where there are none."""
    allowed = Budget(limits).allowed
    told = ", ".join(amount(name, value) for name, value in allowed.items())
    return told and f"This run, sub-agents included, may use {told}; self.budget tells what is left."


def how_to_go_on(reached: LimitReached, record: Path | None) -> str:
    """Why a run has stopped, and how it is gone on with, in a line.

    Args:
        reached: The limit that was reached.
        record: The run's notebook; None where no record is kept.
    """
    field = LIMIT_FIELDS.get(reached.limit)
    if field is None or record is None:
        return reached.message
    option = f"--{field.replace('_', '-')} {_PLACEHOLDERS.get(reached.limit, 'N')}"
    return f"{reached.message}; `codeact resume {as_typed(record.parent)} {option}` goes on with more"


def budget_for_code(tree: Tree) -> dict[str, Any]:
    """What `self.budget` tells.

    Args:
        tree: Whose budget it is.
    """
    budget, spent = tree.budget, tree.budget.spent
    used, allowed, left = budget.used, budget.allowed, budget.left
    usage = spent.usage
    tokens = {"input": usage.input_tokens, "cached": usage.cached_tokens, "output": usage.output_tokens}
    lines = [
        f"{name}: {amount(name, used[name]) if name in used else 'not known, since a price is not'} used"
        + (f", {amount(name, left[name])} of {amount(name, allowed[name])} left" if name in allowed else "")
        for name in ("tokens", "cost", "seconds", "turns")
    ]
    return {
        "limits": {**allowed, "agents": tree.max_agents},
        "used": {**used, "agents": tree.alive},
        "left": {**left, "agents": tree.max_agents - tree.alive},
        "tokens": tokens,
        "cost_known": usage.cost is not None,
        "text": "\n".join([*lines, f"agents: {tree.alive} at work, {tree.max_agents} allowed at once"]),
    }

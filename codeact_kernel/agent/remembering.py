"""What a run was asked to be, kept for a resume.

Comes in: options, and what was settled of them. Goes out: plain values without a secret, which the journal and the
notebook hold; and whether a resume would hold less than the run did before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from codeact_kernel.agent.options import REPLAY, Options
from codeact_kernel.agent.planning import Plan
from codeact_kernel.allowance import SANDBOXES, weaker
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import RunResumed, RunStarted

_AS_THEY_ARE = ("base_url", "dry_run", "max_calls", "kernel", "python", "patience", "sandbox", "sandbox_min")
_OPTIONS = {"allow_net": "allow_net", "allow_hosts": "allow_host", "allow_read": "allow_read"}
"""What these fields are called on the command line."""


def remembered(options: Options, wanted: Plan) -> dict[str, Any]:
    """What of options a resume goes by.

    Args:
        options: What the caller wants. Of what is no plain value (functions, models, hooks) nothing is kept.
        wanted: What was settled of it.
    """
    sandbox, settings = wanted.sandbox, wanted.settings
    given = {name: getattr(options, name) for name in _AS_THEY_ARE}
    return given | {
        "model": _model(options, settings.model),
        "fallback": options.fallback if isinstance(options.fallback, str) else None,
        "vision": options.vision if isinstance(options.vision, str) else None,
        "protocol": wanted.protocol,
        "workspace": str(wanted.workspace),
        "mcp": str(Path(options.mcp).resolve()) if isinstance(options.mcp, str | Path) else None,
        "env": list(options.env),
        "max_memory": wanted.max_memory,
        "lease": wanted.lease or "none",
        "allow_net": sandbox.allow_net,
        "allow_hosts": list(sandbox.allow_hosts),
        "allow_read": [str(path) for path in sandbox.allow_read],
        "approve": options.approve or settings.approve,
        "kept": dict(options.kept),
    }


def _model(options: Options, default: str | None) -> str | None:
    """The name of the model that goes on: after a replay another one may."""
    model = options.model if options.then in (None, REPLAY) else options.then
    return (model or default) if isinstance(model, str | None) else None


def check_not_weaker(
    before: RunStarted | RunResumed, now: Mapping[str, Any], sandbox: str, given: Collection[str]
) -> None:
    """Check that a resume is walled in at least as the run was before, but for what was said anew.

    How it asks for approval needs no check: that is taken over, unless it was said anew.

    Args:
        before: What the run was.
        now: What it is about to be, as `remembered` gives it.
        sandbox: The mode of the sandbox that it is about to have.
        given: The options that were given to the resume itself.

    Raises:
        ConfigError: If it would be weaker, and nobody has said so.
    """
    if "sandbox" not in given and before.sandbox in SANDBOXES and weaker(sandbox, before.sandbox):
        raise ConfigError(
            f"this run had the sandbox {before.sandbox}, and here it would have {sandbox}: say --sandbox {sandbox} if "
            "that will do"
        )
    had = before.options
    wider = {
        "allow_net": now["allow_net"] and not had.get("allow_net"),
        "allow_hosts": not (
            had.get("allow_net") or set(now["allow_hosts"]) <= set(had.get("allow_hosts", ()))
        ),
        "allow_read": not set(now["allow_read"]) <= set(had.get("allow_read", ())),
    }
    for name, is_wider in wider.items():
        if is_wider and not {name, _OPTIONS[name]} & set(given):
            raise ConfigError(
                f"the settings allow more by now than this run had ({name}): say "
                f"--{_OPTIONS[name].replace('_', '-')} to allow that, or take it out of them"
            )

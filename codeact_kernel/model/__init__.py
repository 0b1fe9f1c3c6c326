"""The model: asking it, wherever it runs.

Comes in: settings, and requests. Goes out: streamed replies. This is the only room that imports `openai`; it
does so when a model is opened, so that a command that asks none starts fast.
"""

from __future__ import annotations

from pathlib import Path

from codeact_kernel.model.chunks import CHARACTERS_PER_TOKEN, tokens_of_images
from codeact_kernel.model.retry import OnRetry, Retrying, RetryPolicy
from codeact_kernel.model.settings import ModelSettings, resolve, resolve_for_agent, resolve_vision
from codeact_kernel.protocols import Model

__all__ = [
    "CHARACTERS_PER_TOKEN",
    "ModelSettings",
    "OnRetry",
    "RetryPolicy",
    "open_model",
    "resolve",
    "resolve_for_agent",
    "resolve_vision",
    "tokens_of_images",
]


def open_model(
    settings: ModelSettings, on_retry: OnRetry | None = None, policy: RetryPolicy | None = None
) -> Model:
    """Open a model. Nothing is sent, and nothing started, before the first call.

    Args:
        settings: Which model; see `resolve`.
        on_retry: Hears of each retry, with the reason and the wait in seconds.
        policy: How often and how long an endpoint is retried; None takes the usual.

    Returns:
        The model; whoever opened it closes it. Agents may share it.

    Raises:
        ConfigError: If what the settings name is not here: a file, weights, a package.
        RecordError: If the replies of a replay cannot be read.
    """
    if settings.kind == "replay":
        from codeact_kernel.model.replay import ReplayModel

        return ReplayModel.load(Path(settings.model))
    if settings.kind == "local":
        from codeact_kernel.model.local import LocalModel

        return LocalModel(settings, on_retry)
    from codeact_kernel.model.endpoint import EndpointModel

    return EndpointModel(settings, Retrying(policy, on_retry))

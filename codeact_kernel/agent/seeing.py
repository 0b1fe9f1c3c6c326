"""Whether an agent's blocks can ask about images, and whom.

Comes in: options and settings. Goes out: why they cannot, before anything is started; `Vision`, with its model open.
"""

from __future__ import annotations

from collections.abc import Callable

from codeact_kernel.agent.config import Settings
from codeact_kernel.agent.models import Models
from codeact_kernel.agent.options import Options
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import Event
from codeact_kernel.messages import ImageLimits
from codeact_kernel.protocols import Model
from codeact_kernel.tools import UNSET, Vision, lacking


def blindness(options: Options, settings: Settings) -> str:
    """Why blocks cannot ask about images; empty where they can.

    Args:
        options: What the caller wants.
        settings: What the settings say.

    Raises:
        ConfigError: If a vision model is asked for, and what it needs is not installed.
    """
    if options.vision is None and "vision" not in settings.models:
        return UNSET
    lacks = lacking()
    if lacks and options.vision is not None:
        raise ConfigError(lacks)
    return lacks


def open_vision(
    options: Options, blind: str, models: Models, emit: Callable[[Event], None]
) -> tuple[Vision, Model | None]:
    """Open the model that sees.

    Args:
        options: What the caller wants.
        blind: What `blindness` says.
        models: Opens it, and closes it.
        emit: Told of what questions used.

    Returns:
        What blocks ask; where there is no model it says so. And the model, for sub-agents.

    Raises:
        ConfigError: If something about a model that is asked for is wrong or missing. One that only the settings name
            keeps no agent from starting: many need no images, and a key may be set in another shell only.
    """
    if blind:
        return Vision(blind=blind), None
    try:
        seer = models.seer(options.vision)
    except ConfigError as error:
        if options.vision is not None:
            raise
        return Vision(blind=error.message), None
    assert seer is not None
    limits = seer.settings.images if seer.settings else ImageLimits()
    return Vision(seer, limits, emit), seer

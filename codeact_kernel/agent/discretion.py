"""What an agent tells of itself, without the secrets that it knows of.

Comes in: events as they happen, requests to models. Goes out: the same with every known secret masked. Each event
passes here before anybody hears of it: the audit, the transcript, the record, the model, a terminal; and each request
to a model before it is sent.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import Any

from codeact_kernel.events import Appended, Event, ReplyDelta, RunEnded, TurnStarted
from codeact_kernel.masking import Mask, StreamMask, environment_secrets
from codeact_kernel.messages import ModelRequest, Piece
from codeact_kernel.protocols import Model


class Discretion:
    """Masks events.

    Args:
        mask: Knows the secrets.
    """

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self._reply = StreamMask(mask)
        self._turn = 0

    def __call__(self, event: Event) -> Iterator[Event]:
        """Take an event; gives what may be told now: the last characters of a reply may have to wait for the next."""
        if not self.mask:
            yield event
        elif isinstance(event, ReplyDelta):
            self._turn = event.turn
            if text := self._reply.feed(event.text):
                yield replace(event, text=text)
        else:
            if isinstance(event, Appended | TurnStarted | RunEnded) and (rest := self._reply.rest()):
                yield ReplyDelta(self._turn, rest)
            yield self.mask.of(event)


class DiscreetModel:
    """A `Model` that is sent no known secret.

    Args:
        model: The model.
        mask: Knows the secrets.
    """

    def __init__(self, model: Model, mask: Mask) -> None:
        self.inner = model
        self._mask = mask

    @property
    def name(self) -> str:
        """As in `Model`."""
        return self.inner.name

    @property
    def window(self) -> int | None:
        """As in `Model`."""
        return self.inner.window

    def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """As in `Model`."""
        return self.inner.stream(self._mask.of(request))

    async def aclose(self) -> None:
        """As in `Model`."""
        await self.inner.aclose()


def host_mask(env: Mapping[str, str] | None = None) -> Mask:
    """A mask that knows the secrets of the host's environment.

    Args:
        env: The environment; None takes that of the process.
    """
    return Mask(environment_secrets(os.environ if env is None else env))


def named_keys(tables: Any, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The values of the variables that settings name as keys (`key_env`), wherever in them that is.

    Args:
        tables: Tables of the settings.
        env: The environment; None takes that of the process.
    """
    env = os.environ if env is None else env
    if not isinstance(tables, Mapping):
        return {}
    found = {}
    for key, value in tables.items():
        if key == "key_env" and isinstance(value, str) and value in env:
            found[value] = env[value]
        found |= named_keys(value, env)
    return found

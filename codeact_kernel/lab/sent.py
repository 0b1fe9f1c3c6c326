"""What has left this machine: the requests to the model, as they were sent.

Comes in: requests, by the agent's hook. Goes out: each as text, for the person who asks.
"""

from __future__ import annotations

from collections import deque

from codeact_kernel.controls import plain
from codeact_kernel.errors import ConfigError
from codeact_kernel.messages import ModelRequest

KEPT = 100
"""Requests that are kept, the newest ones. Ours: each holds what those before it held, up to a compaction."""


class Sent:
    """Keeps what is sent; a hook object."""

    def __init__(self) -> None:
        self.count = 0
        self._requests: deque[ModelRequest] = deque(maxlen=KEPT)

    def before_model_call(self, request: ModelRequest) -> None:
        """Take a request."""
        self.count += 1
        self._requests.append(request)

    def text(self, number: int | None = None) -> str:
        """A request in full.

        Args:
            number: Which, from 1; None for the newest.

        Raises:
            ConfigError: If there was no such request, or it is not kept any more.
        """
        if not self.count:
            raise ConfigError("nothing was sent yet")
        number = self.count if number is None else number
        at = number - 1 - (self.count - len(self._requests))
        if not 0 <= at < len(self._requests):
            raise ConfigError(f"there is no request {number} here: {self.count} were sent")
        request = self._requests[at]
        parts = [f"Request {number} of {self.count}, {len(request.messages)} messages:"]
        for message in request.messages:
            parts += [f"--- {message.role}", plain(message.content)]
            parts += [f"[calls {call.name}: {plain(call.arguments)}]" for call in message.tool_calls]
        return "\n".join(parts)

"""What takes what belongs to one execute request.

Comes in: the messages of a kernel that name the request as their parent, sorted by its client. Goes out: nothing; what
becomes of them is the inlet's own affair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from codeact_kernel.errors import KernelError

if TYPE_CHECKING:
    from codeact_kernel.kernels.client import KernelClient

Message = dict[str, Any]


class Inlet(Protocol):
    """Takes what belongs to one execute request. Contract: must not block, must not raise."""

    def attach(self, msg_id: str, source: KernelClient) -> None:
        """The request was sent under this id."""

    def on_iopub(self, message: Message) -> None:
        """An iopub message with this request as its parent; also after the request's end."""

    def on_reply(self, message: Message) -> None:
        """The execute_reply."""

    def on_state(self, state: dict[str, Any]) -> None:
        """What the kernel says of where the request is, because it was not confirmed."""

    def on_call(self, lane: str | None) -> None:
        """Its code, which runs in this lane, calls the host."""

    def on_lost(self, error: KernelError) -> None:
        """The kernel is gone: there will be no more."""

    @property
    def is_whole(self) -> bool:
        """Whether all that the kernel is known to have made for the request is here."""

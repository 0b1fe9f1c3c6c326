"""What one execute request sends back, put in order and counted.

Comes in: the iopub messages and the reply of one request. Goes out: `Output`s, in order and none twice, and
the moment at which the request is complete: its reply is here, and so is every output that the reply counts
(or, for a kernel that does not count, its idle).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from codeact_kernel.blocks import ClearOutput, DisplayOutput, ErrorOutput, Output, ResultOutput, StreamOutput
from codeact_kernel.errors import KernelError
from codeact_kernel.inkernel import wire

GRACE = 2.0
"""Seconds of silence after the reply and the idle, after which what has not come counts as lost."""


def read_output(msg_type: str, content: dict[str, Any]) -> Output | None:
    """Read an output from a message.

    Args:
        msg_type: The message's type.
        content: Its content.

    Returns:
        The output, or None for a message that is none.
    """
    match msg_type:
        case "stream":
            name: Literal["stdout", "stderr"] = "stderr" if content.get("name") == "stderr" else "stdout"
            return StreamOutput(name, str(content.get("text", "")))
        case "display_data" | "update_display_data":
            display_id = (content.get("transient") or {}).get("display_id")
            update = msg_type == "update_display_data"
            return DisplayOutput(content.get("data") or {}, content.get("metadata") or {}, display_id, update)
        case "execute_result":
            data, metadata = content.get("data") or {}, content.get("metadata") or {}
            return ResultOutput(data, metadata, content.get("execution_count"))
        case "error":
            traceback = tuple(content.get("traceback") or ())
            return ErrorOutput(str(content.get("ename")), str(content.get("evalue")), traceback)
        case "clear_output":
            return ClearOutput(bool(content.get("wait")))
    return None


class Collector:
    """Takes what belongs to one request (an `Inlet` of the client).

    Args:
        started: Told when the first line of code runs: (lane).
        output: Told of each output, in order.
        counted: Whether the kernel numbers its outputs.
    """

    def __init__(
        self, started: Callable[[str], None], output: Callable[[Output], None], *, counted: bool
    ) -> None:
        self._started = started
        self._output = output
        self._counted = counted
        self._next = 0
        self._early: dict[int, Output] = {}
        self._idle = False
        self._reply: dict[str, Any] | None = None
        self._expected: int | None = None
        self._moved = asyncio.Event()
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.missing = 0
        """Outputs that the reply counts and that never came."""

    def on_iopub(self, message: dict[str, Any]) -> None:
        """As in `Inlet`."""
        msg_type, content = message["msg_type"], message["content"]
        if msg_type == "status":
            self._idle |= content.get("execution_state") == "idle"
        elif msg_type == "execute_input":
            self._started(str(_meta(message).get("lane") or "main"))
        else:
            output = read_output(msg_type, content)
            if output is not None:
                self._take(output, _meta(message).get("n"))
        self._check()

    def on_reply(self, message: dict[str, Any]) -> None:
        """As in `Inlet`."""
        self._reply = message
        self._expected = _meta(message).get("outputs") if self._counted else None
        self._check()

    def on_lost(self, error: KernelError) -> None:
        """As in `Inlet`."""
        if not self._done.done():
            self._done.set_exception(error)

    async def complete(self) -> dict[str, Any]:
        """Wait until the request is complete, or until what is missing will not come any more.

        Returns:
            The reply.

        Raises:
            KernelError: If the kernel is gone.
        """
        while True:
            self._moved.clear()
            # Silence counts only once the kernel has said that it is finished.
            silence = GRACE if self._reply is not None and self._idle else None
            moved = asyncio.create_task(self._moved.wait())
            both: set[asyncio.Future[Any]] = {self._done, moved}
            try:
                done, _ = await asyncio.wait(both, timeout=silence, return_when=asyncio.FIRST_COMPLETED)
            finally:
                moved.cancel()
            if self._done in done:
                self._done.result()
            if self._done in done or not done:
                break
        assert self._reply is not None
        self._settle()
        return self._reply

    def _take(self, output: Output, number: int | None) -> None:
        if number is None or not self._counted:
            self._output(output)
            return
        if number < self._next or number in self._early:
            return
        self._early[number] = output
        while self._next in self._early:
            self._output(self._early.pop(self._next))
            self._next += 1

    def _check(self) -> None:
        self._moved.set()
        if self._done.done() or self._reply is None:
            return
        if self._next >= self._expected if self._expected is not None else self._idle:
            self._done.set_result(None)

    def _settle(self) -> None:
        """Give up on what has not come: hand on what came after the gap, and count the gap."""
        if self._expected is None:
            return
        for number in sorted(self._early):
            self.missing += number - self._next
            self._output(self._early.pop(number))
            self._next = number + 1
        self.missing += max(0, self._expected - self._next)
        self._next = max(self._next, self._expected)


def _meta(message: dict[str, Any]) -> dict[str, Any]:
    meta = (message.get("metadata") or {}).get(wire.KEY)
    return meta if isinstance(meta, dict) else {}


def reply_meta(reply: dict[str, Any]) -> dict[str, Any]:
    """Our fields of a reply; empty for a kernel that is not ours.

    Args:
        reply: The execute_reply.
    """
    return _meta(reply)

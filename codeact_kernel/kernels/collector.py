"""What one execute request sends back, put in order, counted and made whole.

Comes in: the iopub messages and the reply of one request, what the kernel says of its state, and what it sends
again. Goes out: `Output`s, in order and none twice, confirmations, and the moment at which the request is complete:
its reply is here, and so is every output that the reply counts (or, for a kernel that does not count, its idle).

What is missing is asked for: at once where a number was left out, a moment after the kernel has said that it is
finished, and whenever the kernel says that it has sent more than came. Only what the kernel no longer has, or does
not give when asked several times, is lost; the output says where, and how much.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from codeact_kernel.blocks import Output
from codeact_kernel.errors import KernelError, KernelLost
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.outputs import meta_of, never_came, read_output

PAUSE = 0.2
"""Seconds for which what was said to be finished may still be on its way."""
GRACE = 2.0
"""Seconds of silence after which a kernel that does not count counts as finished, though it did not say so."""
ANSWER = 2.0
"""Seconds that the kernel gets to send something again."""
TRIES = 5
"""How often in a row it is asked without success."""

Message = dict[str, Any]


class Source(Protocol):
    """The kernel, as one of its requests sees it."""

    def acknowledge(self, msg_id: str, phase: int, number: int) -> None:
        """Confirm what has been taken in: the phase, and all outputs before a number."""

    async def request(self, msg_type: str, content: dict[str, Any], *, channel: str = "shell") -> Message:
        """Ask, and wait for the reply. Contract: raises `KernelError` where the kernel is gone."""

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run something until it ends or the channels are closed."""


class Collector:
    """Takes what belongs to one request (an `Inlet` of the client).

    Args:
        started: Told when the first line of code runs: (lane, seconds since the epoch).
        output: Told of each output, in order.
        counted: Whether the kernel numbers its outputs.
        first: The number of the first output that somebody has not been told of already.
        upto: Told before each output which number comes after it.
        waits: Whether the kernel keeps the request's end until `keep` says that it is kept here.
        is_over: Whether its end has been told already, and only late output can come.
    """

    def __init__(
        self,
        started: Callable[[str, float], None],
        output: Callable[[Output], None],
        *,
        counted: bool,
        first: int = 0,
        upto: Callable[[int], None] = lambda number: None,
        waits: bool = False,
        is_over: bool = False,
    ) -> None:
        self._started = started
        self._output = output
        self._upto = upto
        self._counted = counted
        self._phase = wire.RUNNING if is_over else wire.WAITING
        self._next = first
        self._is_kept = not waits
        self._early: dict[int, tuple[str, dict[str, Any]]] = {}
        self._made = 0
        """How many outputs the kernel is known to have made."""
        self._ended = False
        """Whether the kernel is known to have finished."""
        self._idle = False
        self._reply: Message | None = {} if is_over else None
        self._expected: int | None = None
        self._healing = False
        self._moves = 0
        """How many messages have come."""
        self._done: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        # Where only a request's place was kept, nobody may be there to hear that it is lost.
        self._done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.missing = 0
        """Outputs that the kernel made and that never came."""

    def attach(self, msg_id: str, source: Source) -> None:
        """Take note of where the request was sent.

        Args:
            msg_id: Its id.
            source: The kernel.
        """
        self._msg_id = msg_id
        self._source = source

    # -- as in `Inlet` ------------------------------------------------------------------------------------

    def on_iopub(self, message: Message) -> None:
        """As in `Inlet`."""
        kind, content, meta = message["msg_type"], message["content"], meta_of(message)
        self._moves += 1
        if kind == "status":
            if content.get("execution_state") == "idle":
                self._idle = self._ended = True
        elif kind == "execute_input":
            self._start(meta.get("lane"), 0.0)
        else:
            self._take(kind, content, meta.get("n"))
        self._settle()

    def on_reply(self, message: Message) -> None:
        """As in `Inlet`."""
        if self._reply is None:
            self._reply, self._ended, about = message, True, meta_of(message)
            expected = about.get("outputs")
            if self._counted and isinstance(expected, int):
                self._expected = expected
                self._made = max(self._made, expected)
            if isinstance(about.get("started"), float) and isinstance(about.get("ended"), float):
                self._start(about.get("lane"), about["ended"] - about["started"])
        self._settle()

    def on_state(self, state: dict[str, Any]) -> None:
        """As in `Inlet`."""
        made, ran = state.get("outputs"), state.get("ran")
        if isinstance(made, int):
            self._made = max(self._made, made)
        self._ended |= state.get("phase") == wire.ENDED
        if isinstance(ran, float):
            self._start(state.get("lane"), ran)
        self._acknowledge()
        self._settle(at_once=True)

    def on_call(self, lane: str | None) -> None:
        """As in `Inlet`."""
        self._start(lane, 0.0)

    def on_lost(self, error: KernelError) -> None:
        """As in `Inlet`."""
        if not self._done.done():
            self._done.set_exception(error)

    @property
    def is_whole(self) -> bool:
        """As in `Inlet`."""
        return self._done.done() and not self._lacks and not self._early

    def keep(self) -> None:
        """Take that whoever was told of the request's end has kept it: the kernel need not any more."""
        self._is_kept = True
        self._acknowledge()

    async def complete(self) -> Message:
        """Wait until the request is complete, or until what is missing will not come any more.

        Returns:
            The reply.

        Raises:
            KernelError: If the kernel is gone.
        """
        await asyncio.wait({self._done})  # which leaves it alone where who waits is cancelled
        return self._done.result()

    # -- taking in ----------------------------------------------------------------------------------------

    def _start(self, lane: Any, ago: float) -> None:
        """Take that the code runs. What should tell it first may be lost, or come a moment after the reply."""
        if self._phase == wire.WAITING:
            self._phase = wire.RUNNING
            self._started(str(lane or "main"), time.time() - max(0.0, ago))
            self._acknowledge()

    def _take(self, kind: str, content: dict[str, Any], number: Any) -> None:
        if not self._counted or not isinstance(number, int):
            output = read_output(kind, content)
            if output is not None:
                self._output(output)
            return
        if number < self._next or number in self._early:
            return
        self._made = max(self._made, number + 1)
        self._early[number] = (kind, content)
        self._hand_on()

    def _hand_on(self) -> None:
        """Hand on what is next. Outputs come after the start; where that was lost, they wait for it."""
        before = self._next
        while self._next in self._early and self._phase != wire.WAITING:
            kind, content = self._early.pop(self._next)
            self._next += 1
            if kind == wire.LOST:
                self.missing += int(content.get("outputs") or 0)
            output = read_output(kind, content)
            if output is not None:
                self._upto(self._next)
                self._output(output)
        if self._next != before:
            self._acknowledge()

    def _acknowledge(self) -> None:
        if self._counted:
            phase = wire.ENDED if self._reply is not None and self._is_kept else self._phase
            self._source.acknowledge(self._msg_id, phase, self._next)

    # -- making whole -------------------------------------------------------------------------------------

    @property
    def _lacks(self) -> bool:
        """Whether something is known to be missing."""
        return self._next < self._made or (self._ended and self._reply is None)

    def _settle(self, *, at_once: bool = False) -> None:
        """See whether the request is complete, and to what is missing."""
        self._hand_on()
        whole = self._next >= self._expected if self._expected is not None else self._idle
        if self._reply is not None and whole and not self._done.done():
            self._acknowledge()
            self._done.set_result(self._reply)
        if self._healing:
            return
        if self._counted and self._lacks:
            self._healing = True
            self._source.spawn(self._heal(0.0 if at_once or self._early else PAUSE))
        elif not self._counted and self._reply is not None and not self._done.done():
            self._healing = True
            self._source.spawn(self._wait_for_idle(self._reply))

    async def _wait_for_idle(self, reply: Message) -> None:
        """Give a kernel that does not count the time to say that it is finished."""
        await self._quiet(GRACE)
        if not self._done.done():
            self._done.set_result(reply)

    async def _quiet(self, pause: float) -> None:
        moves = -1
        while pause and moves != self._moves:
            moves = self._moves
            await asyncio.sleep(pause)

    async def _heal(self, pause: float) -> None:
        """Ask for what is missing until it is here, or will not come."""
        try:
            await self._quiet(pause)
            failures = 0
            while self._lacks and failures < TRIES:
                before = (self._next, self._reply is None, self._phase)
                try:
                    async with asyncio.timeout(ANSWER):
                        await self._ask()
                except TimeoutError:
                    failures += 1
                    continue
                if before == (self._next, self._reply is None, self._phase):
                    failures += 1
                    await asyncio.sleep(PAUSE)
            if self._lacks:
                self._give_up(self._made)
        except KernelError:
            return
        finally:
            self._healing = False
        self._settle()

    async def _ask(self) -> None:
        if self._phase == wire.WAITING or (self._ended and self._reply is None):
            await self._ask_for_state()
        else:
            await self._ask_for_outputs()

    async def _ask_for_state(self) -> None:
        answer = await self._source.request(wire.REPLY_AGAIN, {"msg_id": self._msg_id}, channel="control")
        content = answer["content"]
        if content.get("status") == "unknown":
            self._give_up(self._made)
        if isinstance(content.get("state"), dict):
            self.on_state(content["state"])
        if isinstance(content.get("content"), dict) and isinstance(content.get("metadata"), dict):
            self.on_reply({**answer, "content": content["content"], "metadata": content["metadata"]})

    async def _ask_for_outputs(self) -> None:
        wanted = {"msg_id": self._msg_id, "from": self._next, "to": min(self._early, default=self._made)}
        answer = await self._source.request(wire.RESEND, wanted, channel="control")
        content = answer["content"]
        if content.get("status") != "ok":
            self._give_up(self._made)
            return
        for output in content["outputs"]:
            self._take(output["msg_type"], output["content"], output["n"])
        if content["first"] > self._next:
            self._give_up(content["first"])
        self._moves += 1

    def _give_up(self, number: int) -> None:
        """Go on without the outputs before a number that have not come, and without a reply that has not.

        Where outputs are missing, an output says so.
        """
        self._start(None, 0.0)
        while self._next < number:
            until = min(number, min(self._early, default=number))
            self.missing += until - self._next
            self._upto(until)
            self._output(never_came(until - self._next))
            self._next = until
            self._hand_on()
        self._acknowledge()
        if self._ended and self._reply is None:
            self.on_lost(KernelLost("the kernel ended the block, and lost how it ended"))
            self._ended = False

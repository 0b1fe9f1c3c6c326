"""Calls from code in the kernel, answered on the host: the bridge's other end.

Comes in: `CALL` and `ABANDON` messages. Goes out: calls of the `serve` function, each in a task of its own, and the
contents of `RETURN` messages. A call that comes a second time, because a channel failed, is not made a second time.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from codeact_kernel.errors import KernelLost
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.large import Large

Serve = Callable[[str, Sequence[Any], dict[str, Any], str | None, "Back"], Awaitable[Any]]
"""Answers a call from code in the kernel: (name, args, kwargs, msg_id of the block, the way back to it) to the result.
What it raises goes back as the error."""

KEPT = 64
"""Answers that are kept in case they were lost on the way; ours, more than are on their way at once."""
SMALL = 2**16
"""Bytes up to which a result is sent by the thread that made it: to write a larger one takes longer than to wake
the loop."""
_GONE = "it or its answer was lost when a channel to the host failed; call it again if that does no harm"


class Back:
    """The way back to the code that calls, while its call is answered.

    Args:
        calls: What answers it.
        number: The call's number.
        name: The function's name.
    """

    def __init__(self, calls: Calls, number: int, name: str) -> None:
        self._calls = calls
        self._number = number
        self._name = name
        self._loop, self._thread = asyncio.get_running_loop(), threading.current_thread()
        self.is_given = False
        """Whether the code has the result already."""

    def note(self, text: str) -> None:
        """Print a line as the block that called. From any thread."""
        said = {"call": self._number, "status": "note", "text": text}
        if threading.current_thread() is self._thread:
            self._calls.answer(said)
        else:
            self._loop.call_soon_threadsafe(self._calls.answer, said)

    def give(self, value: Any) -> None:
        """Give the code its result at once, from the thread in which it was made: the loop need not be woken for it.

        What cannot be sent from here goes the ordinary way, as everything does that `serve` returns or raises.
        """
        self.is_given = self._calls.give(self._number, self._name, value)


class Calls:
    """The calls of one kernel.

    Args:
        send: Sends the content of a `RETURN`.
        send_from_thread: Sends one from another thread; gives whether that went.
    """

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        send_from_thread: Callable[[dict[str, Any]], bool] = lambda content: False,
    ) -> None:
        self.serve: Serve | None = None
        """Answers them; None where no tools are served."""
        self.large: Large | None = None
        """Takes results that are too large to travel; None where all do."""
        self._send = send
        self._send_from_thread = send_from_thread
        self._running: dict[int, asyncio.Task[None]] = {}
        self._answers: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._latest = 0
        """The highest number of a call that was answered and is not kept any more."""
        self._returns: list[dict[str, Any]] = []
        """What goes out with the loop's next round."""

    def take(self, call: dict[str, Any]) -> None:
        """Take a call.

        Args:
            call: One of those of a `CALL`.
        """
        number = call["call"]
        if number in self._running:
            return
        if number in self._answers or number <= self._latest:
            self.answer(self._answers.get(number) or {"call": number, "status": "error", "error": _GONE})
            return
        task = asyncio.get_running_loop().create_task(self._answer(number, call))
        self._running[number] = task
        task.add_done_callback(lambda _: self._running.pop(number, None))

    def abandon(self, number: int) -> None:
        """Take that nobody waits for a call any more.

        Args:
            number: The call's number.
        """
        call = self._running.get(number)
        if call is not None:
            call.cancel()

    async def aclose(self) -> None:
        """Cancel what still runs."""
        running = list(self._running.values())
        for call in running:
            call.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _answer(self, number: int, content: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"call": number, "status": "ok"}
        back = Back(self, number, content["name"])
        try:
            if self.serve is None:
                raise KernelLost("no tools are served to this kernel")
            args = [wire.unpack(value) for value in content["args"]]
            kwargs = {key: wire.unpack(value) for key, value in content["kwargs"].items()}
            if content["name"] == wire.PAGE and self.large is not None:
                answer["value"] = wire.pack(self.large.page(*args))
            else:
                value = await self.serve(content["name"], args, kwargs, content.get("of"), back)
                if not back.is_given:
                    answer |= self._packed(value, content["name"])
        except Exception as exception:
            answer |= {"status": "error", "error": str(exception) or type(exception).__name__}
        if not back.is_given:
            self._answers[number] = answer
            self.answer(answer)
        if len(self._answers) > KEPT:
            self._latest = max(self._latest, self._answers.popitem(last=False)[0])

    def give(self, number: int, name: str, value: Any) -> bool:
        """Answer a call from the thread that made its result; as `Back.give`.

        Args:
            number: The call's number.
            name: The function's name.
            value: The result.

        Returns:
            Whether it was answered.
        """
        try:
            packed = wire.pack(value, f"the result of {name}")
        except TypeError:
            return False
        if wire.size_of(packed) > SMALL:
            return False
        # Before it is sent: it may be asked for again.
        answer = self._answers[number] = {"call": number, "status": "ok", "value": packed}
        return self._send_from_thread({"returns": [answer]})

    def _packed(self, value: Any, name: str) -> dict[str, Any]:
        packed = wire.pack(value, f"the result of {name}")
        held = None if self.large is None else self.large.hold(packed, wire.describe(value))
        return {"value": packed} if held is None else {"large": held}

    def answer(self, answer: dict[str, Any]) -> None:
        """Send an answer, or what is said before it. In the loop.

        Args:
            answer: One of those of a `RETURN`.
        """
        self._returns.append(answer)
        if len(self._running) <= 1:
            self._flush()  # nothing comes that could go with it
        elif len(self._returns) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        returns, self._returns = self._returns, []
        if returns:
            self._send({"returns": returns})

"""Calls that are under way at a server, and what it says meanwhile.

Comes in: progress, log messages and questions, from tasks that belong to no call. Goes out: lines in the output of the
block that called, and answers of whoever decides.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from codeact_kernel.errors import CodeactError
from codeact_kernel.tools.mcp.names import one_line

PROGRESS = 1.0
"""Seconds between two lines of progress of one call. Ours."""
MESSAGES = 50
"""Log messages that one call shows. Ours: what is beyond nobody reads."""
TEXT = 500
"""Characters of one line."""


@dataclass(frozen=True, slots=True)
class Elicitation:
    """What a server asks of the person for whom it works."""

    server: str
    """The server's name."""
    message: str
    """Its question. Text of a stranger."""
    schema: Mapping[str, Any] = field(default_factory=dict)
    """The JSON schema of the answer: an object of plain values. Empty where only consent is asked for."""
    url: str = ""
    """A page that the person is asked to visit; else empty."""


Elicit = Callable[[Elicitation], Awaitable[Mapping[str, Any] | None]]
"""Answers with the values that were asked for ({} for consent), or None to decline."""
Notice = Callable[[str], None]


class Progress(Protocol):
    """Told of how far a call is."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Hear that it is at `progress` of `total`, and what the server says of it."""


@dataclass(eq=False, slots=True)
class Call:
    """A call that is under way."""

    name: str
    """What is called, as code writes it."""
    context: contextvars.Context
    """That of the caller: by it a notice finds its block."""
    clock: asyncio.Timeout | None = None
    told: float = float("-inf")
    """When its progress was shown."""
    messages: int = 0
    questions: set[asyncio.Task[Mapping[str, Any] | None]] = field(default_factory=set)


_current: contextvars.ContextVar[Call | None] = contextvars.ContextVar(
    "the call of an MCP server", default=None
)


class Calls:
    """The calls of one server.

    Args:
        group: The server's name in code.
        notice: Shows a line in the output of the block in whose context it is called.
        elicit: Answers questions; None declines them.
        timeout: Seconds that a call may take. The time in which a person is asked does not count.
    """

    def __init__(self, group: str, notice: Notice, elicit: Elicit | None, timeout: float) -> None:
        self._group = group
        self._notice = notice
        self._elicit = elicit
        self._timeout = timeout
        self._calls: set[Call] = set()
        self._questions = 0

    @contextmanager
    def under_way(self, name: str) -> Iterator[Call]:
        """Note a call for as long as it lasts."""
        call = Call(name, contextvars.copy_context())
        token = _current.set(call)
        self._calls.add(call)
        try:
            yield call
        finally:
            self._calls.discard(call)
            _current.reset(token)
            for question in call.questions:
                # Nobody waits for what depends on it.
                if not any(question in other.questions for other in self._calls):
                    question.cancel()

    @asynccontextmanager
    async def timed(self, call: Call) -> AsyncIterator[None]:
        """The time that a call has from now on.

        Raises:
            TimeoutError: When it is over.
        """
        try:
            async with asyncio.timeout(None if self._questions else self._timeout) as call.clock:
                yield
        finally:
            call.clock = None

    def progress(self) -> Progress:
        """In a call: what shows its progress, no faster than a line in `PROGRESS`."""
        call = _current.get()
        assert call is not None

        async def show(progress: float, total: float | None, message: str | None) -> None:
            now = asyncio.get_running_loop().time()
            if call not in self._calls or now - call.told < PROGRESS:
                return
            call.told = now
            share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            self._tell(call, f"{call.name}: {share} {message or ''}")

        return show

    def message(self, level: str, data: Any) -> None:
        """Show a log message of the server."""
        grave = "" if level in ("info", "notice") else f" ({level})"
        for call in self._concerned():
            call.messages += 1
            if call.messages <= MESSAGES:
                text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
                self._tell(call, f"{self._group}{grave}: {text}")
            elif call.messages == MESSAGES + 1:
                self._tell(call, f"{self._group}: it says more, which is not shown here")

    async def ask(self, elicitation: Elicitation) -> Mapping[str, Any] | None:
        """Have a question answered; the clocks of calls stand still meanwhile.

        Returns:
            The answer; None where it is declined, also because no call is under way any more.
        """
        asking = self._concerned()
        if self._elicit is None or not asking:
            for call in asking:
                self._tell(call, f"{call.name} asks a person, and there is none: {elicitation.message}")
            return None
        # As if the call had asked: then it is known whose block it is.
        context = asking[0].context.copy() if len(asking) == 1 else None
        question = asyncio.create_task(self._answer(self._elicit, elicitation), context=context)
        for call in asking:
            call.questions.add(question)
        self._stop_clocks()
        try:
            await asyncio.wait([question])
            return None if question.cancelled() else question.result()
        finally:
            question.cancel()
            self._start_clocks()

    async def _answer(self, elicit: Elicit, elicitation: Elicitation) -> Mapping[str, Any] | None:
        try:
            return await elicit(elicitation)
        except CodeactError as error:
            self._notice(f"{self._group}: its question was not answered: {error}")
            return None

    def _stop_clocks(self) -> None:
        self._questions += 1
        for call in self._calls:
            if call.clock is not None:
                call.clock.reschedule(None)

    def _start_clocks(self) -> None:
        self._questions -= 1
        if self._questions:
            return
        for call in self._calls:
            if call.clock is not None:
                call.clock.reschedule(asyncio.get_running_loop().time() + self._timeout)

    def _concerned(self) -> list[Call]:
        """The call that something belongs to, where that is known (over HTTP, by its stream); else all."""
        call = _current.get()
        return [call] if call is not None and call in self._calls else list(self._calls)

    def _tell(self, call: Call, text: str) -> None:
        call.context.run(self._notice, one_line(text, TEXT))

"""A server: started when it is first needed, and anew when it has died.

Comes in: a `Server` of the settings. Goes out: answers to calls, or a ToolError that says what happened; never a wait
without end.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.mcp.calls import Calls, Elicit, Notice, Progress
from codeact_kernel.tools.mcp.config import Server
from codeact_kernel.tools.mcp.listing import Listing, ListingCache
from codeact_kernel.tools.mcp.log import ServerLog
from codeact_kernel.tools.mcp.names import clean

if TYPE_CHECKING:
    from mcp.client import Transport

    from codeact_kernel.tools.mcp.session import Connection

STARTS = 2
"""Starts within `WINDOW` seconds: the first and one more. A server that dies at each call is not started for ever, and
one that has run for hours is started anew whenever it dies. Ours."""
WINDOW = 300.0
ERROR = 4_000
"""Characters of a server's own words in an error."""
_T = TypeVar("_T")


class McpServer:
    """One server, over all its lives.

    Args:
        server: How it is reached.
        log: Where its stderr goes.
        notice: Shows a line in the output of the block in whose context it is called.
        elicit: Answers questions of the server.
        cache: Where its listing is kept between runs; None keeps none.
        workspace: The folder that it is told of as its root.
        connect: Reaches it; None goes by the settings.
    """

    def __init__(
        self,
        server: Server,
        log: ServerLog,
        *,
        notice: Notice,
        elicit: Elicit | None = None,
        cache: ListingCache | None = None,
        workspace: Path | None = None,
        connect: Callable[[], Transport] | None = None,
    ) -> None:
        self._server = server
        self._log = log
        self._cache = cache
        self._workspace = workspace
        self._connect = connect or (lambda: _transport(server, log))
        self._calls = Calls(server.group, notice, elicit, server.timeout)
        self._connection: Connection | None = None
        self._starting: asyncio.Task[Connection] | None = None
        self._started: deque[float] = deque(maxlen=STARTS)
        self._closed = False
        self.listing: Listing | None = None if cache is None else cache.read(server.key)
        """What it offers, as far as known: from an earlier run before it is started."""

    @property
    def group(self) -> str:
        """Its name in code: "mcp.github"."""
        return self._server.group

    @property
    def name(self) -> str:
        """Its name in the settings."""
        return self._server.name

    async def start(self) -> Listing:
        """Start it where it does not run, and hear what it offers.

        Raises:
            ToolError: If it does not start.
        """
        return (await self._alive()).listing

    async def call(self, name: str, ask: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Ask it something.

        Args:
            name: What is called, as code writes it.
            ask: Asks, and gives the answer.

        Raises:
            ToolError: If it does not start, dies, takes too long, or answers with an error.
        """
        with self._calls.under_way(name) as call:
            connection = await self._alive()
            try:
                async with self._calls.timed(call):
                    return await ask(connection)
            except ToolError as error:
                raise ToolError(f"{name}: {self._said(error.message)}") from None
            except TimeoutError:
                raise ToolError(
                    f"{name}: no answer within {self._server.timeout:g} s; the call was cancelled"
                ) from None
            except Exception as error:
                raise await self._failure(name, connection, error) from None

    def progress(self) -> Progress:
        """In a call: what shows its progress."""
        return self._calls.progress()

    async def aclose(self) -> None:
        """End it, and what it has started; no call is answered any more."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._connection is not None:
            await self._connection.aclose()
            self._connection = None

    async def _alive(self) -> Connection:
        """The connection; begun where there is none, by one for all who wait."""
        if self._closed:
            raise self._gone()
        connection = self._connection
        if connection is not None and connection.alive:
            try:
                async with asyncio.timeout(self._server.start_timeout):
                    if await connection.refresh():
                        self._keep(connection.listing)
            except TimeoutError:
                raise ToolError(f"{self.group} does not say what it offers now") from None
            except Exception as error:
                raise await self._failure(self.group, connection, error) from None
            return connection
        if self._starting is None:
            # Not cancelled with the call that happens to be the first, and not in its context.
            self._starting = asyncio.create_task(self._start(), context=contextvars.Context())
            self._starting.add_done_callback(self._has_started)
        starting = self._starting
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if not starting.cancelled() or (me is not None and me.cancelling()):
                raise
            raise self._gone() from None

    def _has_started(self, task: asyncio.Task[Connection]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # Looked at: those who waited may have been cancelled.

    async def _start(self) -> Connection:
        # In a thread: the first time it takes most of a second, and other blocks go on meanwhile.
        session = await asyncio.to_thread(importlib.import_module, "codeact_kernel.tools.mcp.session")
        if self._connection is not None:
            await self._connection.aclose()
        self._connection = None
        now = time.monotonic()
        if len(self._started) == STARTS and now - self._started[0] < WINDOW:
            wait = WINDOW - (now - self._started[0])
            raise ToolError(
                f"{self.group} does not run: it was started {STARTS} times and is not started again for {wait:.0f} s."
                f"{self._end()}"
            )
        self._started.append(now)
        connection: Connection = session.Connection(self.name, self._connect, self._calls, self._workspace)
        self._log.ending, self._log.forgotten = "", False
        try:
            await connection.start(self._server.start_timeout)
        except TimeoutError:
            raise ToolError(
                f"{self.group} was not ready within {self._server.start_timeout:g} s and is ended.{self._end()}"
            ) from None
        except Exception as error:
            raise ToolError(
                f"{self.group} does not start: {self._said(_text(error))}.{self._end()}"
            ) from None
        self._connection = connection
        self._keep(connection.listing)
        return connection

    def _keep(self, listing: Listing) -> None:
        self.listing = listing
        if self._cache is not None:
            self._cache.write(self._server.key, listing)

    async def _failure(self, name: str, connection: Connection, error: Exception) -> ToolError:
        from mcp import MCPError

        if isinstance(error, MCPError) and self._log.forgotten:
            connection.condemn()
            return ToolError(
                f"{name}: the server has forgotten this session, and the call with it; the next call begins another"
            )
        if not connection.alive:
            # Now its program's end is known, and nothing of it lives on.
            await connection.aclose()
            if self._closed:
                return ToolError(f"{name}: the agent ended before there was an answer")
            why = f" ({self._said(_text(connection.cause))})" if connection.cause is not None else ""
            return ToolError(
                f"{name}: the server ended{why} before it answered, so it is not known whether the call took effect. "
                f"The next call starts it anew.{self._end()}"
            )
        if isinstance(error, MCPError):
            return ToolError(f"{name}: {self._said(error.message)}{self._status()}")
        if isinstance(error, ValidationError):
            return ToolError(f"{name}: {self._said(_text(error))}")
        raise error

    def _gone(self) -> ToolError:
        return ToolError(f"{self.group} is closed: the agent has ended")

    def _said(self, text: str) -> str:
        return clean(self._server.secrets.hide(text), ERROR) or "no reason was given"

    def _end(self) -> str:
        """How it ended, and its last words."""
        return (f" Its end: {self._log.ending}." if self._log.ending else "") + self._log.tail

    def _status(self) -> str:
        return f" ({self._log.ending})" if self._server.url and self._log.ending else ""


def _transport(server: Server, log: ServerLog) -> Transport:
    if server.url:
        from codeact_kernel.tools.mcp.http import http_transport

        return http_transport(server, log)
    from codeact_kernel.tools.mcp.stdio import stdio_transport

    return stdio_transport(server, log)


def _text(error: BaseException | None) -> str:
    """An error as a reader wants it: of several that came together the first, and its kind where the text is none."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return ""
    if isinstance(error, ValidationError):
        fault = error.errors(include_input=False, include_url=False)[0]
        return f"what it answers does not follow the protocol: {'.'.join(map(str, fault['loc']))}: {fault['msg']}"
    message = getattr(error, "message", None) or str(error)
    ours = isinstance(error, ToolError) or type(error).__module__.startswith("mcp.")
    return message if ours and message else f"{type(error).__name__}: {message}".rstrip(": ")

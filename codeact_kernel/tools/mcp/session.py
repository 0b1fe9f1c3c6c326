"""One life of a server: from its start to its end, in one task.

Comes in: streams to a server. Goes out: a `Connection`, over which any task can ask while it lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import mcp.types as t
from mcp import ClientSession, MCPError
from mcp.client import ClientRequestContext, IncomingMessage, Transport
from mcp.client.subscriptions import listen
from mcp.shared.message import SessionMessage
from mcp.types.jsonrpc import JSONRPCResponse

from codeact_kernel._version import __version__
from codeact_kernel.tools.mcp.calls import Calls, Elicitation
from codeact_kernel.tools.mcp.listing import Listing, mend
from codeact_kernel.tools.mcp.names import clean, one_line
from codeact_kernel.tools.mcp.requests import listing_of

CLOSING = 10.0
"""Seconds in which a life ends by itself: more than a program's two times of grace."""
QUESTION = 2_000
"""Characters of a question, and of each text in the schema of its answer."""
WORD = 500

# Where no logging is set up, the SDK's loggers would write tracebacks to the terminal.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class _Session(ClientSession):
    """The SDK's session, which leaves results as they are.

    Checking them against the server's own output schema would run that schema's regular expressions in our event loop:
    one of them, written with intent, holds up everything.
    """

    async def validate_tool_result(self, name: str, result: t.CallToolResult) -> None:
        """Take any result."""


class _Watched:
    """A stream to read, which tells when it has ended, and in which listings are mended.

    Args:
        stream: The stream.
        over: Called at its end.
    """

    def __init__(self, stream: Any, over: Callable[[], None]) -> None:
        self._stream = stream
        self._over = over

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context in which the last item was sent, where the stream knows it."""
        context: contextvars.Context | None = getattr(self._stream, "last_context", None)
        return context

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        self._over()
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._stream.__anext__()
        except StopAsyncIteration:
            self._over()
            raise
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            mend(item.message.result)
        return item

    async def __aenter__(self) -> _Watched:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()


class Connection:
    """One life of a server.

    The SDK's contexts hold cancel scopes, which have to be left in the task that entered them: so one task of ours
    enters and leaves them all, and whoever starts, asks or closes may be any other.

    Args:
        server: The server's name.
        open_streams: Reaches the server.
        calls: Told of what the server says.
        workspace: The folder that it is told of as its root.
    """

    def __init__(
        self, server: str, open_streams: Callable[[], Transport], calls: Calls, workspace: Path | None
    ) -> None:
        self._server = server
        self._open = open_streams
        self._calls = calls
        self._workspace = workspace
        self._over = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._listing_lock = asyncio.Lock()
        self._stale = False
        self.session: ClientSession
        self.listing = Listing()
        self.cause: BaseException | None = None
        """Why it has ended, where that is known."""

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return not self._over.is_set()

    def condemn(self) -> None:
        """End it: it lives, and is of no use any more."""
        self._over.set()

    async def start(self, timeout: float) -> None:
        """Reach the server, and hear what it offers.

        Args:
            timeout: Seconds.

        Raises:
            TimeoutError: If it is not ready in time. It is closed then.
            Exception: What else went wrong, as it came: see `cause`. It is closed then, too.
        """
        # Not in the caller's context: a life is longer than the call that it begins with.
        self._task = asyncio.create_task(self._live(), context=contextvars.Context())
        try:
            await asyncio.wait([self._ready], timeout=timeout)
            if not self._ready.done():
                raise TimeoutError
            self._ready.result()
        except BaseException:
            await self.aclose(patience=0)
            raise

    async def aclose(self, patience: float = CLOSING) -> None:
        """End it.

        Args:
            patience: Seconds in which it may end by itself; then its task is cancelled, which stops a program as well.
        """
        self._over.set()
        if self._task is None:
            return
        if not self._task.done():
            await asyncio.wait([self._task], timeout=patience)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                read, write = await stack.enter_async_context(self._open())
                self.session = await stack.enter_async_context(self._new_session(read, write))
                await self._greet()
                self.listing = await listing_of(self.session)
                stack.push_async_callback(_end, asyncio.create_task(self._hear_of_changes()))
                self._ready.set_result(None)
                await self._over.wait()
        except Exception as error:
            self.cause = error
        finally:
            self._over.set()
            if not self._ready.done():
                self._ready.set_exception(self.cause or ConnectionError("it has ended"))
                # It may be that nobody waits any more.
                self._ready.exception()

    def _new_session(self, read: Any, write: Any) -> ClientSession:
        return _Session(
            _Watched(read, self._over.set),
            write,
            elicitation_callback=self._elicit,
            list_roots_callback=self._roots if self._workspace is not None else None,
            logging_callback=self._log,
            message_handler=self._note,
            log_level="info",
            client_info=t.Implementation(name="codeact-kernel", version=__version__),
        )

    async def _greet(self) -> None:
        try:
            # First, since nearly all know it, and programs that do not know the other greeting may end at it.
            await self.session.initialize()
        except MCPError as refusal:
            if not self.alive:
                raise
            try:
                await self.session.discover()
            except MCPError:
                raise refusal from None
        capabilities = self.session.server_capabilities
        if self.session.initialize_result is not None and capabilities is not None and capabilities.logging:
            with contextlib.suppress(MCPError):
                level = t.SetLevelRequest(params=t.SetLevelRequestParams(level="info"))
                await self.session.send_request(level, t.EmptyResult)

    async def _hear_of_changes(self) -> None:
        """Where the server does not say by itself that its tools have changed, ask it to."""
        capabilities = self.session.server_capabilities
        if self.session.discover_result is None or not (capabilities and capabilities.tools):
            return
        with contextlib.suppress(MCPError, RuntimeError):
            async with listen(self.session, tools_list_changed=True) as changes:
                async for _ in changes:
                    self._stale = True

    async def refresh(self) -> bool:
        """Read the listing again where the server has said that it changed; returns whether it has."""
        async with self._listing_lock:
            if not self._stale:
                return False
            self._stale = False
            try:
                self.listing = await listing_of(self.session)
            except BaseException:
                self._stale = True
                raise
            return True

    async def _elicit(self, context: ClientRequestContext, params: t.ElicitRequestParams) -> t.ElicitResult:
        message = clean(params.message, QUESTION)
        if isinstance(params, t.ElicitRequestURLParams):
            question = Elicitation(self._server, message, url=one_line(params.url, QUESTION))
        else:
            question = Elicitation(self._server, message, schema=_shown(params.requested_schema))
        if question.url and not question.url.startswith(("https://", "http://")):
            return t.ElicitResult(action="decline")
        answer = await self._calls.ask(question)
        if answer is None:
            return t.ElicitResult(action="decline")
        return t.ElicitResult(action="accept", content=None if question.url else dict(answer))

    async def _roots(self, context: ClientRequestContext) -> t.ListRootsResult:
        assert self._workspace is not None
        folder = self._workspace.absolute()
        return t.ListRootsResult(roots=[t.Root.model_validate({"uri": folder.as_uri(), "name": folder.name})])

    async def _log(self, params: t.LoggingMessageNotificationParams) -> None:
        if params.level != "debug":
            self._calls.message(params.level, params.data)

    async def _note(self, message: IncomingMessage) -> None:
        if isinstance(message, t.ToolListChangedNotification):
            self._stale = True


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _shown(part: Any) -> Any:
    """A schema that a person reads, with its texts as `clean` leaves them."""
    if isinstance(part, dict):
        return {clean(key, WORD): _shown(value) for key, value in part.items()}
    if isinstance(part, list):
        return [_shown(value) for value in part]
    return clean(part, WORD) if isinstance(part, str) else part

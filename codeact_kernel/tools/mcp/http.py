"""A server at an address: streamable HTTP, with the SDK's transport, within bounds.

Comes in: a `Server` with a url. Goes out: the SDK's pair of streams, and the last status that was no success.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from codeact_kernel.sizes import format_size
from codeact_kernel.tools.mcp.config import Server
from codeact_kernel.tools.mcp.log import ServerLog

FAREWELL = 2.0
"""Seconds in which a server has to answer that a session is over. Ours: nothing depends on it."""
_EVENTS = "text/event-stream"
_SESSION = "mcp-session-id"


@asynccontextmanager
async def http_transport(server: Server, log: ServerLog) -> AsyncIterator[Any]:
    """Reach a server over HTTP.

    Args:
        server: The server.
        log: Told of a status that is no success, and of a session that is forgotten.

    Yields:
        The SDK's pair of streams.
    """

    async def hurry(request: httpx2.Request) -> None:
        if request.method == "DELETE":
            request.extensions["timeout"]["read"] = FAREWELL

    async def check(response: httpx2.Response) -> None:
        if response.request.method == "POST":
            log.ending = f"HTTP status {response.status_code}" if response.status_code >= 400 else ""
            log.forgotten = response.status_code == 404 and _SESSION in response.request.headers
        response.stream = _Bounded(response, server.max_result)

    client = httpx2.AsyncClient(
        # Compressed, a small body can be a large one.
        headers={**server.headers, "Accept-Encoding": "identity"},
        # A call has its own timeout, and may take long.
        timeout=httpx2.Timeout(server.start_timeout, read=None),
        event_hooks={"request": [hurry], "response": [check]},
    )
    async with client:
        opened = streamable_http_client(server.url, http_client=client, max_sse_event_size=server.max_result)
        async with opened as streams:
            yield streams


class _Bounded(httpx2.AsyncByteStream):
    """The body of a response, which fails above a size; of a stream of events the SDK bounds each."""

    def __init__(self, response: httpx2.Response, limit: int) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._inner = response.stream
        self._events = response.headers.get("content-type", "").lower().startswith(_EVENTS)
        self._packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        if self._packed:
            raise httpx2.StreamError("the answer is compressed, which was not asked for")
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._limit and not self._events:
                raise httpx2.StreamError(
                    f"the answer has more than the {format_size(self._limit)} that are taken"
                )
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()

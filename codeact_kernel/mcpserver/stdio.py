"""The server on stdin and stdout.

Comes in: lines of JSON. Goes out: lines of JSON; the command keeps all else off stdout.
Neither waiting for a line nor writing one holds up the end of the process, as the SDK's own threads would.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from io import RawIOBase
from typing import Any, cast

import anyio
from mcp.server.stdio import stdio_server

from codeact_kernel.mcpserver.server import make_server
from codeact_kernel.mcpserver.sessions import Open, Sessions

Read = Callable[[], Awaitable[str | None]]
"""Gives the next line without its end; None where there are no more."""


async def serve_stdio(open_session: Open, read: Read, out: RawIOBase) -> None:
    """Serve one client until it closes stdin.

    Args:
        open_session: Opens its namespace, with its first call.
        read: Reads lines of the protocol.
        out: Where they are written, without a buffer, whose lock a write that hangs would hold.
    """
    # The SDK only iterates over the one, and only writes to the other.
    lines, writer = cast("Any", _Lines(read)), cast("Any", _Writer(out))
    async with Sessions(open_session) as sessions, stdio_server(lines, writer) as (incoming, outgoing):
        server = make_server(sessions)
        await server.run(incoming, outgoing, server.create_initialization_options())


class _Lines:
    def __init__(self, read: Read) -> None:
        self._read = read

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._read()) is not None:
            yield line


class _Writer:
    """Writes in a thread: a client that does not read holds up that, and no end."""

    def __init__(self, out: RawIOBase) -> None:
        self._out = out

    async def write(self, text: str) -> None:
        try:
            await asyncio.to_thread(self._write, text.encode())
        except OSError as error:
            # In these words the SDK takes it that nobody reads any more; the end of stdin comes, too.
            raise anyio.ClosedResourceError from error

    async def flush(self) -> None:
        pass  # nothing is kept back

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._out.write(left) or 0 :]

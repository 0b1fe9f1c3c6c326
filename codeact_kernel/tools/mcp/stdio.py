"""A server that is a program of its own: messages over its stdin and stdout.

Comes in: a `Server` with a command. Goes out: the SDK's pair of streams, for as long as its process lives. The SDK's
own transport reads lines of any length into memory, and leaves behind what a server that ends by itself has started;
so this one takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.builtin.processes import MARK, end_tree, wait_exit
from codeact_kernel.tools.mcp.config import Server
from codeact_kernel.tools.mcp.framing import Endless, Lines, read_message
from codeact_kernel.tools.mcp.log import ServerLog

GRACE = 2.0
"""Seconds that a server has to end by itself after its stdin is closed, and again after SIGTERM. The SDK's value."""
LAST_WORDS = 1.0
"""Seconds in which what is left in the pipes is read after its end: what has cut itself off may hold them for ever."""
QUEUE = 1_000
"""Messages that wait for a server that does not read: so that a call to it can be given up, and its cancellation sent,
without a wait for that, too. Ours: more calls than are ever under way at once."""
GARBAGE = 10
"""Lines of one chunk of stdout that are kept, where they are no messages."""
_CHUNK = 2**16
_Heard = MemoryObjectSendStream[SessionMessage | Exception]
_Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


@asynccontextmanager
async def stdio_transport(server: Server, log: ServerLog) -> AsyncIterator[_Streams]:
    """Start a server's program; at the end stop it, and all that it has started.

    Args:
        server: The server.
        log: Where its stderr goes, and how it ended.

    Raises:
        ToolError: If there is no such program or folder, or it cannot be started.
    """
    async with AsyncExitStack() as stack:
        mark = secrets.token_hex(16)
        process = _start(server, mark)
        stack.push_async_callback(_stop, process, mark)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for pipe in (process.stdin, process.stdout, process.stderr):
            # Until a transport has it, nobody else closes it.
            stack.callback(pipe.close)
        out, err = await _listen(stack, process.stdout), await _listen(stack, process.stderr)
        mouth = await _speech(stack, process.stdin)
        heard, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, spoken = anyio.create_memory_object_stream[SessionMessage](QUEUE)
        for stream in (heard, read, write, spoken):
            stack.callback(stream.close)
        hearing = asyncio.create_task(_hear(out, heard, server.max_result, log))
        keeping = asyncio.create_task(_keep(err, log))
        others = [
            asyncio.create_task(_speak(spoken, mouth, heard)),
            asyncio.create_task(_watch(process, hearing)),
        ]
        stack.push_async_callback(_cancel, [hearing, keeping, *others])
        try:
            yield read, write
        finally:
            read.close()
            write.close()
            mouth.pipe.close()
            await _stop(process, mark)
            await asyncio.wait([hearing, keeping], timeout=LAST_WORDS)
            log.ended(process.returncode)


def _start(server: Server, mark: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            server.command,
            cwd=server.cwd,
            env={**get_default_environment(), **server.env, MARK: mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        # The program, or the folder in which it was to run.
        what = getattr(error, "filename", None) or server.command[0]
        text = getattr(error, "strerror", None) or type(error).__name__
        raise ToolError(f"{what}: {text}") from None


async def _listen(stack: AsyncExitStack, pipe: object) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_CHUNK)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    stack.callback(transport.close)
    return reader


async def _speech(stack: AsyncExitStack, pipe: object) -> _Mouth:
    mouth = _Mouth()
    mouth.pipe, _ = await asyncio.get_running_loop().connect_write_pipe(lambda: mouth, pipe)
    stack.callback(mouth.shut)
    return mouth


async def _watch(process: subprocess.Popen[bytes], hearing: asyncio.Task[None]) -> None:
    """End the hearing when the program has ended, also where one of its children still holds stdout."""
    await wait_exit(process)
    await asyncio.wait([hearing], timeout=LAST_WORDS)
    hearing.cancel()


async def _hear(out: asyncio.StreamReader, heard: _Heard, limit: int, log: ServerLog) -> None:
    """Pass on messages until stdout is closed; then nobody waits for an answer any more."""
    lines = Lines(limit)
    with heard:
        try:
            while data := await out.read(_CHUNK):
                garbage = []
                for line in lines.feed(data):
                    message = read_message(line, limit)
                    if message is not None:
                        await heard.send(SessionMessage(message))
                    elif line.head.strip():
                        garbage.append(line.head[:200].decode("utf-8", "replace"))
                if garbage:
                    more = [f"and {len(garbage) - GARBAGE} such lines"] if len(garbage) > GARBAGE else []
                    log.lines([f"(on stdout, and no message) {line}" for line in garbage[:GARBAGE] + more])
        except Endless:
            log.lines(["(on stdout) a line without an end: not read any further"])
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # The session is over. What is still said is read, so that the program can end.
            while await out.read(_CHUNK):
                pass


async def _speak(spoken: MemoryObjectReceiveStream[SessionMessage], mouth: _Mouth, heard: _Heard) -> None:
    async with spoken:
        async for item in spoken:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            if not await mouth.say(text.encode() + b"\n"):
                # It has closed its stdin: no call can reach it any more.
                heard.close()
                return


async def _keep(err: asyncio.StreamReader, log: ServerLog) -> None:
    while data := await err.read(_CHUNK):
        log.feed(data)
    log.finish()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Mouth(asyncio.BaseProtocol):
    """Writes to a pipe, no faster than it is read."""

    pipe: asyncio.WriteTransport

    def __init__(self) -> None:
        self._free = asyncio.Event()
        self._free.set()
        self._lost = False

    def pause_writing(self) -> None:
        self._free.clear()

    def resume_writing(self) -> None:
        self._free.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._free.set()

    async def say(self, data: bytes) -> bool:
        """Write; returns whether it is still read."""
        if not self._lost:
            self.pipe.write(data)
            await self._free.wait()
        return not self._lost

    def shut(self) -> None:
        """Close, and drop what was not read."""
        if not self._lost:
            self.pipe.abort()


async def _stop(process: subprocess.Popen[bytes], mark: str) -> None:
    """Give a program the time to end by itself, then end it with all that it has started."""
    if process.returncode is not None:
        return
    try:
        for number in (None, signal.SIGTERM):
            if number is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await wait_exit(process)
                    break
    finally:
        await end_tree(process, mark)

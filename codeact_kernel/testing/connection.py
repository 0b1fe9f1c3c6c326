"""One client's connection to a scripted endpoint: just enough HTTP for a chat completion.

Comes in: bytes of HTTP/1.1, and what to answer. Goes out: JSON, or a stream of events, whole or broken.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from codeact_kernel.messages import ToolCall
from codeact_kernel.testing.replies import EndpointReply, Recorded

CHARACTERS_PER_TOKEN = 4
"""What a token is at a scripted endpoint."""


class Answers(Protocol):
    """What a connection asks of its endpoint."""

    stops: bool
    limits: bool
    models: Sequence[str] | None

    def takes_key_of(self, request: Recorded) -> bool:
        """Whether a request brings the key that it must bring."""

    def answer(self, request: Recorded) -> EndpointReply:
        """Settle the reply to a request."""

    def usage(self, request: Recorded, reply: EndpointReply, text: str) -> dict[str, Any]:
        """The usage to report for a reply of which `text` was sent."""


class Connection:
    """Reads requests and writes what the endpoint answers."""

    def __init__(self, endpoint: Answers, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._endpoint = endpoint
        self._reader = reader
        self._writer = writer

    async def serve(self) -> None:
        """Serve until the client leaves.

        Raises:
            OSError: If the connection breaks, also where the script says so.
            EOFError: If the client leaves in the middle of a request.
        """
        while not self._reader.at_eof() and (request := await self._read()) is not None:
            if request.path.endswith("/models") and not self._endpoint.takes_key_of(request):
                await self._send(401, {"error": {"message": "Incorrect API key provided"}})
            elif request.path.endswith("/models"):
                names = self._endpoint.models or ["scripted"]
                await self._send(200, {"object": "list", "data": [{"id": name} for name in names]})
            elif request.path.endswith("/chat/completions"):
                await self._reply(request, self._endpoint.answer(request))
            else:
                await self._send(404, {"error": {"message": f"there is nothing at {request.path}"}})

    async def _read(self) -> Recorded | None:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = first.split(" ", 2)
        return Recorded(method, path.partition("?")[0], headers, json.loads(body) if body else {})

    async def _send(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        data = json.dumps(body).encode()
        await self._head(
            status, {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}
        )
        self._writer.write(data)
        await self._writer.drain()

    async def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        await self._writer.drain()

    async def _reply(self, request: Recorded, reply: EndpointReply) -> None:
        await asyncio.sleep(reply.wait)
        if reply.breaks == "drop":
            raise ConnectionResetError
        if reply.status != 200:
            await self._send(reply.status, {"error": dict(reply.error)}, reply.headers)
            return
        text, finish = self._cut(request, reply)
        if not request.body.get("stream"):
            await self._whole(request, reply, text, finish)
            return
        if reply.breaks is not None:
            text = text[: reply.at]
        await self._head(
            200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **reply.headers}
        )
        await self._event({"role": "assistant", "content": ""}, None)
        for delta in _deltas(reply, text):
            await asyncio.sleep(reply.delay)
            await self._event(delta, None)
        if reply.breaks is not None:
            await self._break(reply)
            return
        if finish is not None:
            await self._event({}, finish)
            wanted = (request.body.get("stream_options") or {}).get("include_usage")
            if wanted and reply.usage is not None:
                await self._data({"choices": [], "usage": self._endpoint.usage(request, reply, text)})
            await self._chunk(b"data: [DONE]\n\n")
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def _cut(self, request: Recorded, reply: EndpointReply) -> tuple[str, str | None]:
        """The text up to the first stop sequence, or the length that was asked for, and the finish reason."""
        said = "tool_calls" if reply.calls else "stop"
        ends: list[tuple[int, str | None]] = [(len(reply.text), reply.finish if reply.finish != "" else said)]
        if self._endpoint.stops:
            stop = request.body.get("stop") or []
            stop = [stop] if isinstance(stop, str) else stop
            ended = reply.finish if reply.finish != "" else "stop"
            ends += [(reply.text.find(word), ended) for word in stop if word in reply.text]
        limit = request.body.get("max_tokens") or request.body.get("max_completion_tokens")
        if limit and self._endpoint.limits:
            ends.append((CHARACTERS_PER_TOKEN * limit, "length"))
        at, finish = min(ends, key=lambda end: end[0])
        return reply.text[:at], finish

    async def _whole(self, request: Recorded, reply: EndpointReply, text: str, finish: str | None) -> None:
        message = {
            "role": "assistant",
            "content": text,
            "tool_calls": [_call(call, i) for i, call in enumerate(reply.calls)],
        }
        await self._send(
            200,
            {
                "object": "chat.completion",
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": self._endpoint.usage(request, reply, text),
            },
        )

    async def _break(self, reply: EndpointReply) -> None:
        match reply.breaks:
            case "reset":
                linger = struct.pack("ii", 1, 0)
                self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self._writer.transport.abort()
            case "malformed":
                await self._chunk(b'data: {"choices": [{"delta": {"content": "\xff\n\n')
                await asyncio.sleep(0)
            case "error":
                await self._data(
                    {"error": dict(reply.error) or {"message": "the upstream broke off", "code": 502}}
                )
            case "hang":
                await asyncio.Event().wait()
            case "ping":
                while True:
                    await self._chunk(b": ping\n\n")
                    await asyncio.sleep(0.01)
        raise ConnectionResetError

    async def _event(self, delta: Mapping[str, Any], finish: str | None) -> None:
        await self._data(
            {
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            }
        )

    async def _data(self, value: Mapping[str, Any]) -> None:
        await self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    async def _chunk(self, data: bytes) -> None:
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()


def _deltas(reply: EndpointReply, text: str) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = []
    for name, whole in (("reasoning_content", reply.thought), ("content", text)):
        deltas += [{name: whole[i : i + reply.piece]} for i in range(0, len(whole), reply.piece)]
    if reply.breaks is not None:
        return deltas
    for index, call in enumerate(reply.calls):
        deltas.append({"tool_calls": [_call(ToolCall(call.id, call.name, ""), index)]})
        pieces = [call.arguments[i : i + reply.piece] for i in range(0, len(call.arguments), reply.piece)]
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces]
    return deltas


def _call(call: ToolCall, index: int) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"index": index, "id": call.id, "type": "function", "function": function}

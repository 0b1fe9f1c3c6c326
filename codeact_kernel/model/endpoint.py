"""Asks a model behind any OpenAI-compatible endpoint.

Comes in: requests. Goes out: the pieces of each reply as they stream, the last of them an `EndPiece`. This is
the only place that talks to an endpoint. What an endpoint does not take is left out from then on; a failure
before the first piece goes to the retry layer, one after it makes the reply a cut one.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import difflib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx
import openai

from codeact_kernel.errors import ModelError, ModelRefused, ModelUnreachable
from codeact_kernel.messages import EndPiece, ImagePart, Message, ModelRequest, Piece, ToolSchema
from codeact_kernel.model.address import is_loopback, public_url
from codeact_kernel.model.chunks import ChunkReader
from codeact_kernel.model.failures import Failure, judge
from codeact_kernel.model.governor import Governor, governor_of
from codeact_kernel.model.retry import Retrying, TryAgain
from codeact_kernel.model.settings import DEFAULT_ENDPOINT, ModelSettings

CONNECT_TIMEOUT = 10.0
"""Seconds to wait for a connection."""
LISTING_TIMEOUT = 5.0
"""Seconds to wait for the list of models, which only makes an error's text better."""
USAGE_GRACE = 5.0
"""Seconds to wait after the finish reason for the usage and the end of the stream."""
LIVELY = 6
"""How many times as long a connection may stay without a word if it gives signs of life; ours: routers send them while
a model queues or reasons, and some for ever."""
LONGEST_STOP = 4
"""Stop sequences that are sent: OpenAI takes four."""
_LIMITS = ("max_completion_tokens", "max_tokens")
_FAILURES = (openai.OpenAIError, httpx.HTTPError, ValueError)
"""What a call may raise: the library's errors, those of the HTTP client that older versions let through, and
what comes of bytes that are no JSON."""


class EndpointModel:
    """A model behind an OpenAI-compatible endpoint. Many calls may run at once.

    Args:
        settings: Which model, where, with which key.
        retrying: The retry layer; None makes one with the usual policy, that reports to nobody.
    """

    def __init__(self, settings: ModelSettings, retrying: Retrying | None = None) -> None:
        self._settings = settings
        self._retrying = retrying or Retrying()
        self._window = settings.window
        self._answered = False
        self._left_out: set[str] = set()
        # OpenAI's newer models refuse max_tokens, most other servers know nothing else.
        self._limits = _LIMITS if settings.base_url == DEFAULT_ENDPOINT else _LIMITS[::-1]
        self._client = openai.AsyncOpenAI(
            base_url=settings.base_url,
            api_key=settings.key.reveal() if settings.key else "none",
            max_retries=0,
            timeout=openai.Timeout(settings.timeout, connect=CONNECT_TIMEOUT),
            # A proxy that the environment names is not asked for what runs on this machine.
            http_client=openai.DefaultAsyncHttpxClient(trust_env=not is_loopback(settings.base_url)),
        )

    @property
    def name(self) -> str:
        """What the endpoint calls it."""
        return self._settings.model

    @property
    def window(self) -> int | None:
        """Tokens of its window: from the settings, else as the endpoint told when a prompt did not fit."""
        return self._window

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """Ask, and stream the reply; see `protocols.Model.stream`.

        Args:
            request: The messages and what goes with them.

        Yields:
            The pieces of the reply.

        Raises:
            ModelError: Before the first piece only, when trying again is no use or did not help.
        """
        first, rest = await self._retrying.run(lambda: self._begin(request))
        async with contextlib.aclosing(rest):
            yield first
            async for piece in rest:
                yield piece

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def models(self) -> list[str]:
        """Ask the endpoint which models it has.

        Returns:
            Their names; none where it does not say within a few seconds.
        """
        try:
            async with asyncio.timeout(LISTING_TIMEOUT):
                listing = await self._client.models.list()
                return sorted(str(model.id) for model in listing.data)
        except (*_FAILURES, TimeoutError, AttributeError, TypeError):
            return []

    @property
    def _governor(self) -> Governor:
        settings = self._settings
        return governor_of((settings.base_url, settings.key), settings.max_concurrent)

    async def _begin(self, request: ModelRequest) -> tuple[Piece, AsyncGenerator[Piece, None]]:
        """One try: everything up to the first piece."""
        pieces = self._pieces(request)
        return await anext(pieces), pieces

    async def _pieces(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        patience = self._retrying.policy.patience
        async with (
            self._governor.turn(self._retrying.tell, patience),
            contextlib.aclosing(self._read(request)) as pieces,
        ):
            async for piece in pieces:
                yield piece

    async def _read(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        reader = ChunkReader()
        stream = await self._open(request)
        begun = False
        try:
            while (chunk := await self._next(stream, reader.finished)) is not None:
                for piece in reader.read(_plain(chunk)):
                    begun = True
                    yield piece
        except _FAILURES as error:
            if not begun and reader.finish is None:
                raise self._verdict(judge(error, self._settings)) from None
        finally:
            await stream.close()
        if not begun and reader.finish is None:
            raise self._nothing_came(stream)
        yield EndPiece(reader.finish, reader.usage(request, self._settings.prices))

    async def _next(self, stream: openai.AsyncStream[Any], finished: bool) -> object | None:
        patience = USAGE_GRACE if finished else self._settings.timeout * LIVELY
        try:
            async with asyncio.timeout(patience):
                chunk: object = await anext(stream, None)
                return chunk
        except TimeoutError:
            if finished:
                return None
            raise openai.APITimeoutError(stream.response.request) from None

    async def _open(self, request: ModelRequest) -> openai.AsyncStream[Any]:
        """Send the request, leaving out, one by one, the fields that the endpoint says it does not take."""
        while True:
            body = self._body(request)
            optional = self._optional(request) & body.keys()
            try:
                stream = await self._client.chat.completions.create(
                    model=self.name,
                    messages=(),  # the library would look through each of hundreds of messages, at each call
                    stream=True,
                    extra_body=body,
                )
            except _FAILURES as error:
                failure = judge(error, self._settings, optional)
            else:
                self._answered = True
                return stream
            self._answered = self._answered or failure.error.status is not None
            if failure.unknown_model:
                raise await self._with_known_models(failure.error)
            if failure.rejected is None:
                raise self._verdict(failure)
            self._left_out.add(failure.rejected)
            self._retrying.tell(f"{failure.error.message}; asking without {failure.rejected}", 0.0)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "messages": [_message(message) for message in request.messages],
            "stream_options": {"include_usage": True},
        }
        if request.stop:
            body["stop"] = list(request.stop[:LONGEST_STOP])
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        limit = request.max_tokens or self._settings.max_tokens
        name = next((name for name in self._limits if name not in self._left_out), None)
        if limit and name:
            body[name] = limit
        body |= {**self._settings.extra, **request.extra}
        return {key: value for key, value in body.items() if key not in self._left_out}

    def _optional(self, request: ModelRequest) -> set[str]:
        """The fields that are ours to leave out; what the user's settings ask for is not."""
        return {"stream_options", "stop", *_LIMITS, *request.extra} - self._settings.extra.keys()

    async def _with_known_models(self, refused: ModelError) -> ModelError:
        known = await self.models()
        if self.name in known:
            return refused
        if known:
            near = difflib.get_close_matches(self.name, known, 5, 0.3) or known[:5]
            more = f" and {len(known) - len(near)} more" if len(known) > len(near) else ""
            text = f"{refused.endpoint} has no model {self.name!r}; it has {', '.join(near)}{more}"
        else:
            text = f"{refused.message} (is {self.name!r} its name there, and does the base URL end in /v1?)"
        return ModelRefused(text, model=self.name, endpoint=refused.endpoint, status=refused.status)

    def _verdict(self, failure: Failure) -> Exception:
        """What to raise for a failure: the error itself, or the wish for another try."""
        if self._settings.window is None and failure.window is not None:
            self._window = failure.window
        if not failure.again:
            return failure.error
        attempts = None if self._answered else self._retrying.policy.first_attempts
        return TryAgain(failure.error, failure.retry_after, attempts)

    def _nothing_came(self, stream: openai.AsyncStream[Any]) -> Exception:
        endpoint = public_url(self._settings.base_url)
        kind = stream.response.headers.get("content-type", "").partition(";")[0]
        who: dict[str, Any] = {"model": self.name, "endpoint": endpoint, "status": 200}
        if kind in ("", "text/event-stream"):
            error: ModelError = ModelUnreachable(f"{endpoint} broke off before the first word", **who)
            return TryAgain(error)
        return ModelRefused(
            f"{endpoint} does not stream replies: it sent {kind} (is --base-url right?)", **who
        )


def _plain(chunk: object) -> object:
    """A chunk as plain JSON; the library builds its own types from anything without a look at it."""
    return chunk.to_dict(warnings=False) if isinstance(chunk, openai.BaseModel) else chunk


def _message(message: Message) -> Mapping[str, Any]:
    content = _sendable(message.content)
    body: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        body["content"] = content or None
        body["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _sendable(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    if message.images:
        shown = [part for image in message.images for part in _image(image)]
        body["content"] = [*shown, {"type": "text", "text": content}]
    return body


def _image(image: ImagePart) -> list[Mapping[str, Any]]:
    url = f"data:{image.media_type};base64,{base64.b64encode(image.data).decode('ascii')}"
    label = {"type": "text", "text": _sendable(image.label)}
    return [label, {"type": "image_url", "image_url": {"url": url}}]


def _tool(tool: ToolSchema) -> Mapping[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _sendable(text: str) -> str:
    """Text without lone surrogates (a file name's odd bytes, say), which cannot be sent as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()

r"""An OpenAI-compatible endpoint that says what a script tells it, and fails as it is told.

Comes in: a list of replies, or a function from a request to a reply. Goes out: a base URL on loopback that
any client can use, in this process or another, and a record of all that was asked. It serves from a thread of
its own, so that a test may also block while its subject talks to it.

    async with ScriptedEndpoint(["<run_code>\nprint(1)\n</run_code>", "It printed 1."]) as endpoint:
        await ask(endpoint.base_url)
        assert len(endpoint.requests) == 2
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from codeact_kernel.messages import Usage
from codeact_kernel.testing.connection import CHARACTERS_PER_TOKEN, Connection
from codeact_kernel.testing.replies import EndpointReply, Recorded, failing

__all__ = ["EndpointReply", "Recorded", "Script", "ScriptedEndpoint", "failing"]

CACHED = 100
"""Prompts that its cache remembers."""

Script = Sequence[str | EndpointReply] | Callable[[Recorded], str | EndpointReply]


class ScriptedEndpoint:
    """Serves a script on loopback, as `async with` or `with`.

    Args:
        script: What to say: one reply a request, in order of arrival, or a function that chooses. A function
            is called in the endpoint's thread. Past the end of a list requests are refused with a 400.
        key: The key that a request must bring; None takes any.
        models: The models that there are; None takes any name.
        rejects: Fields of a request that are answered with a 400.
        window: Prompt tokens past which a request is answered as a context overflow, at a token for four
            characters; None for no bound.
        stops: Whether stop sequences cut a reply, as they do at a real endpoint.
        limits: Whether `max_tokens` does.
        port: The port; 0 takes a free one.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        key: str | None = None,
        models: Sequence[str] | None = None,
        rejects: Sequence[str] = (),
        window: int | None = None,
        stops: bool = True,
        limits: bool = True,
        port: int = 0,
    ) -> None:
        self.requests: list[Recorded] = []
        """The chat requests, in order of arrival, failed ones included."""
        self.script = script
        self.key = key
        self.models = models
        self.rejects = rejects
        self.window = window
        self.stops = stops
        self.limits = limits
        self._port = port
        self._given = 0
        self._seen: deque[list[str]] = deque(maxlen=CACHED)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scripted-endpoint", daemon=True)
        self._failure: BaseException | None = None

    @property
    def base_url(self) -> str:
        """Where it is asked."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def left(self) -> int:
        """How many replies of a list have not been given."""
        return 0 if callable(self.script) else len(self.script) - self._given

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        clients: list[tuple[asyncio.Task[None], asyncio.StreamWriter]] = []

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            clients.append((group.create_task(self._attend(reader, writer)), writer))

        server = await asyncio.start_server(
            accept, "127.0.0.1", self._port, limit=1 << 26, start_serving=False
        )
        self._port = server.sockets[0].getsockname()[1]
        async with asyncio.TaskGroup() as group:
            await server.start_serving()
            self._ready.set()
            await self._stop.wait()
            server.close()
            for task, _ in clients:
                task.cancel()
        for _, writer in clients:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await Connection(self, reader, writer).serve()
        except (OSError, EOFError):
            pass  # the client went away
        finally:
            writer.close()

    def answer(self, request: Recorded) -> EndpointReply:
        """Settle the reply to a request; also takes note of the request.

        Args:
            request: The request.
        """
        self.requests.append(request)
        refused = self._refusal(request)
        if refused is not None:
            return refused
        if callable(self.script):
            reply = self.script(request)
        elif self._given < len(self.script):
            reply = self.script[self._given]
            self._given += 1
        else:
            return failing(400, f"the script has only {len(self.script)} replies")
        return EndpointReply(reply) if isinstance(reply, str) else reply

    def takes_key_of(self, request: Recorded) -> bool:
        """Whether a request brings the key that it must bring."""
        return self.key is None or request.headers.get("authorization") == f"Bearer {self.key}"

    def _refusal(self, request: Recorded) -> EndpointReply | None:
        if not self.takes_key_of(request):
            return failing(401, "Incorrect API key provided", code="invalid_api_key")
        model = request.body.get("model")
        if self.models is not None and model not in self.models:
            return failing(404, f"The model `{model}` does not exist", code="model_not_found")
        for name in self.rejects:
            if name in request.body:
                return failing(400, f"Unrecognized request argument supplied: {name}")
        if self.window is not None and (tokens := _tokens(*_rendered(request))) > self.window:
            text = f"This model's maximum context length is {self.window} tokens, your prompt has {tokens}"
            return failing(400, text, code="context_length_exceeded")
        return None

    def usage(self, request: Recorded, reply: EndpointReply, text: str) -> dict[str, Any]:
        """The usage to report; cached are the messages at its start that an earlier prompt began with.

        Args:
            request: The request.
            reply: The reply.
            text: What of its text was sent.
        """
        prompt = _rendered(request)
        shared = max((_shared(prompt, earlier) for earlier in self._seen), default=0)
        self._seen.append(prompt)
        written = text + reply.thought + "".join(call.name + call.arguments for call in reply.calls)
        used = reply.usage or Usage()
        if used == Usage():
            used = Usage(_tokens(*prompt), shared // CHARACTERS_PER_TOKEN, _tokens(written))
        return {
            "prompt_tokens": used.input_tokens,
            "completion_tokens": used.output_tokens,
            "total_tokens": used.total_tokens,
            "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
        }


def _rendered(request: Recorded) -> list[str]:
    """The prompt in pieces, the tools first, as a cache would look at it."""
    return [json.dumps(piece, ensure_ascii=False) for piece in (request.body.get("tools"), *request.messages)]


def _shared(prompt: list[str], earlier: list[str]) -> int:
    """Characters of the pieces with which both begin."""
    same = 0
    for ours, theirs in zip(prompt, earlier, strict=False):
        if ours != theirs:
            break
        same += len(ours)
    return same


def _tokens(*texts: str) -> int:
    return -(-sum(map(len, texts)) // CHARACTERS_PER_TOKEN)

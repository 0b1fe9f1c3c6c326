"""Reads the chunks of a streamed chat completion.

Comes in: chunks as plain JSON values, from whatever calls itself OpenAI-compatible. Goes out: pieces of the
reply, and at the end the finish reason and the usage. A chunk of an unknown shape gives no pieces; it never
raises.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from codeact_kernel.messages import CallPiece, ModelRequest, Piece, TextPiece, ThoughtPiece, Usage
from codeact_kernel.prices import Prices, cost

CHARACTERS_PER_TOKEN = 4
"""OpenAI's rule of thumb for English text; used only where an endpoint sends no usage, and labelled so."""

PIXELS_PER_TOKEN = 750
"""Anthropic's rule of thumb for images; used where `CHARACTERS_PER_TOKEN` is."""

_FINISH: dict[str, str | None] = {
    "max_tokens": "length",
    "model_length": "length",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "error": None,
    "abort": None,
    "insufficient_system_resource": None,
}
"""Finish reasons under other names (Anthropic's, Gemini's, Mistral's, TGI's), and those of OpenRouter, vLLM
and DeepSeek that say that the endpoint broke off by itself, so that the reply is a cut one."""


class ChunkReader:
    """Reads one reply's chunks, in order."""

    def __init__(self) -> None:
        self.finish: str | None = None
        self.finished = False
        """Whether a finish reason has come; after it only the usage is waited for."""
        self._usage: Mapping[str, Any] | None = None
        self._characters = 0
        self._calls: list[str | None] = []

    def read(self, chunk: object) -> Iterator[Piece]:
        """Take a chunk and yield what of the reply is in it."""
        if not isinstance(chunk, Mapping):
            return
        self._take_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, Mapping) and choice.get("index") in (0, None):
                yield from self._read_choice(choice)

    def usage(self, request: ModelRequest, prices: Prices | None) -> Usage:
        """What the call used: as the endpoint says, else an estimate that is labelled as one.

        Args:
            request: What was asked.
            prices: The prices, or None where they are not known.
        """
        counted = self._counted() or Usage(
            input_tokens=_characters_of(request) // CHARACTERS_PER_TOKEN + tokens_of_images(request),
            output_tokens=-(-self._characters // CHARACTERS_PER_TOKEN),
            estimated=True,
        )
        return replace(counted, calls=1, cost=cost(counted, prices))

    def _counted(self) -> Usage | None:
        if self._usage is None:
            return None
        prompt, reply = _count(self._usage, "prompt_tokens"), _count(self._usage, "completion_tokens")
        if not prompt or reply is None:  # no prompt has no tokens: whoever says so has not counted
            return None
        # Gemini and xAI leave reasoning out of the completion, but count it in the total.
        reply = max(reply, (_count(self._usage, "total_tokens") or 0) - prompt)
        details = self._usage.get("prompt_tokens_details")
        cached = _count(details, "cached_tokens") if isinstance(details, Mapping) else None
        for name in ("prompt_cache_hit_tokens", "cached_tokens"):  # DeepSeek, Moonshot
            cached = _count(self._usage, name) if cached is None else cached
        return Usage(prompt, min(cached or 0, prompt), reply)

    def _take_usage(self, usage: object) -> None:
        if isinstance(usage, Mapping):
            self._usage = usage

    def _read_choice(self, choice: Mapping[str, Any]) -> Iterator[Piece]:
        self._take_usage(choice.get("usage"))
        delta = choice.get("delta")
        if isinstance(delta, Mapping):
            yield from self._read_delta(delta)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.finish = _FINISH.get(reason.lower(), reason.lower())
            self.finished = True

    def _read_delta(self, delta: Mapping[str, Any]) -> Iterator[Piece]:
        for name in ("reasoning_content", "reasoning"):
            thought = delta.get(name)
            if isinstance(thought, str) and thought:
                self._characters += len(thought)
                yield ThoughtPiece(thought)
                break
        yield from self._read_content(delta.get("content"))
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, Mapping):
                yield self._read_call(call)

    def _read_content(self, content: object) -> Iterator[Piece]:
        """Content is text, or (Mistral) a list of parts, some of them thoughts that hold parts again."""
        if isinstance(content, str) and content:
            self._characters += len(content)
            yield TextPiece(content)
        for part in content if isinstance(content, list) else []:
            if not isinstance(part, Mapping):
                continue
            yield from self._read_content(part.get("text"))
            for piece in self._read_content(part.get("thinking")):
                yield ThoughtPiece(piece.text) if isinstance(piece, TextPiece) else piece

    def _read_call(self, call: Mapping[str, Any]) -> CallPiece:
        function = call.get("function")
        function = function if isinstance(function, Mapping) else {}
        id_, name = _text(call.get("id")), _text(function.get("name"))
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else json.dumps(arguments)
        self._characters += len(name or "") + len(arguments)
        return CallPiece(self._index(call.get("index"), id_), id_, name, arguments)

    def _index(self, index: object, id_: str | None) -> int:
        """Which call it belongs to; some endpoints leave the index out, and a new id opens a new call."""
        if isinstance(index, int) and not isinstance(index, bool):
            return index
        if (id_ is not None and id_ not in self._calls) or not self._calls:
            self._calls.append(id_)
        return self._calls.index(id_) if id_ in self._calls else len(self._calls) - 1


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    value = usage.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < math.inf else None


def _characters_of(request: ModelRequest) -> int:
    tools = json.dumps([tool.parameters for tool in request.tools]) if request.tools else ""
    return len(tools) + sum(
        len(message.content) + sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
        for message in request.messages
    )


def tokens_of_images(request: ModelRequest) -> int:
    """About what the images of a request are, in tokens."""
    images = [image for message in request.messages for image in message.images]
    return sum(-(-image.width * image.height // PIXELS_PER_TOKEN) for image in images)

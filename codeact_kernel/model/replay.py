"""A model that says again what a model said before.

Comes in: a file of recorded replies: one JSON object a line, or a run's notebook, which keeps them under
`metadata.codeact.replies`; in both a reply is `{"text": …, "finish": …, "calls": […]}`. Goes out: a `Model`
that gives them in order. What is asked is not looked at, nothing is sent anywhere, and nothing is paid. Another
model can go on after some of them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codeact_kernel.errors import ConfigError, ModelRefused, RecordError
from codeact_kernel.messages import CallPiece, EndPiece, ModelRequest, Piece, TextPiece, ToolCall, Usage
from codeact_kernel.protocols import Model


class ReplayModel:
    """Gives recorded replies, one a call, in order.

    Args:
        replies: Each a mapping with "text", and where they are known "finish" and "calls".
        name: What it is called: the file that they come from.

    Raises:
        RecordError: If one of them is no reply.
    """

    def __init__(self, replies: Sequence[object], name: str = "replay") -> None:
        self._replies = [_read_reply(reply, f"{name}, reply {n}") for n, reply in enumerate(replies, 1)]
        self._next = 0
        self._name = name

    @classmethod
    def load(cls, file: Path) -> ReplayModel:
        """Read recorded replies.

        Args:
            file: A `.jsonl` file, a run's notebook, or the run directory that holds it.

        Raises:
            ConfigError: If there is no such file.
            RecordError: If it holds no replies.
        """
        path = file / "run.ipynb" if file.is_dir() else file
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot replay {path}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise RecordError(f"{path} is no record: it is not text") from None
        replies = _from_notebook(path, text) if path.suffix == ".ipynb" else _from_lines(path, text)
        if not replies:
            raise RecordError(f"{path} holds no replies to replay")
        return cls(replies, path.name)

    @property
    def name(self) -> str:
        """The file that the replies come from."""
        return self._name

    @property
    def window(self) -> int | None:
        """None: nothing is read, so all of it fits."""
        return None

    @property
    def left(self) -> int:
        """How many replies are still to come."""
        return len(self._replies) - self._next

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """Give the next reply; see `protocols.Model.stream`.

        Raises:
            ModelRefused: If all of them have been given.
        """
        if not self.left:
            count = len(self._replies)
            raise ModelRefused(
                f"{self._name} holds {count} repl{'y' if count == 1 else 'ies'}, and all have been replayed",
                model=self._name,
            )
        text, finish, calls = self._replies[self._next]
        self._next += 1
        if text:
            yield TextPiece(text)
        for index, call in enumerate(calls):
            yield CallPiece(index, call.id, call.name, call.arguments)
        yield EndPiece(finish, Usage(calls=1))

    async def aclose(self) -> None:
        """Nothing to let go of."""


class ForkedModel:
    """Says again what was recorded, and from some reply on asks another model.

    Args:
        recorded: Has the replies.
        live: Answers after them.
        replies: How many replies are said again.
    """

    def __init__(self, recorded: Model, live: Model, replies: int) -> None:
        self._recorded = recorded
        self._live = live
        self._left = replies

    def go_live(self) -> None:
        """Say nothing again any more."""
        self._left = 0

    @property
    def is_live(self) -> bool:
        """Whether all that was to be said again has been said."""
        return self._left == 0

    @property
    def name(self) -> str:
        """That of the model that answers in the end."""
        return self._live.name

    @property
    def window(self) -> int | None:
        """As in `Model`."""
        return self._live.window

    def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """As in `Model`."""
        if self.is_live:
            return self._live.stream(request)
        self._left -= 1
        return self._recorded.stream(request)

    async def aclose(self) -> None:
        """Nothing: neither is ours."""


def _from_lines(path: Path, text: str) -> list[object]:
    replies: list[object] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                replies.append(json.loads(line))
            except ValueError:
                raise RecordError(f"{path}, line {number} is no JSON") from None
    return replies


def _from_notebook(path: Path, text: str) -> list[object]:
    try:
        value = json.loads(text)
    except ValueError:
        raise RecordError(f"{path} is no notebook: it is no JSON") from None
    for key in ("metadata", "codeact", "replies"):
        value = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(value, list):
        raise RecordError(f"{path} holds no replies to replay: it is no record of a run")
    return value


def _read_reply(reply: object, where: str) -> tuple[str, str | None, tuple[ToolCall, ...]]:
    if not isinstance(reply, Mapping) or not isinstance(reply.get("text"), str):
        raise RecordError(f'{where}: a reply is {{"text": …, "finish": …, "calls": […]}}')
    finish = reply.get("finish", "stop")
    if finish is not None and not isinstance(finish, str):
        raise RecordError(f"{where}: its finish is no text")
    calls = reply.get("calls") or []
    if not isinstance(calls, list):
        raise RecordError(f"{where}: its calls are no list")
    return reply["text"], finish, tuple(_read_call(call, where) for call in calls)


def _read_call(call: Any, where: str) -> ToolCall:
    if not isinstance(call, Mapping) or not all(
        isinstance(call.get(k), str) for k in ("id", "name", "arguments")
    ):
        raise RecordError(f'{where}: a call is {{"id": …, "name": …, "arguments": …}}, all of them text')
    return ToolCall(call["id"], call["name"], call["arguments"])

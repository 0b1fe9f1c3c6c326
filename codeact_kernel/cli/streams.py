"""Where words go: the answer to stdout, everything else to stderr, one line for what went wrong.

Comes in: answers, events, errors. Goes out: text that fits the stream that it goes to: nothing that the model
or a block wrote reaches a terminal as anything but text.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

import typer

from codeact_kernel.controls import shown
from codeact_kernel.errors import CodeactError, RecordError
from codeact_kernel.events import Event, to_json
from codeact_kernel.masking import Mask, environment_secrets

T = TypeVar("T")


def clean(text: str) -> str:
    """Take out of a text what a terminal would obey instead of showing it.

    Args:
        text: Text from a model, a block, an endpoint.
    """
    return shown(text).expandtabs(4)


def complain(message: str) -> None:
    """Say on stderr, in one line, what is wrong or why something has ended.

    Args:
        message: What a person shall know.
    """
    if sys.stderr is not None:
        # A terminal that is gone must not turn what is said into a second error.
        with contextlib.suppress(OSError):
            print(f"codeact: {' '.join(clean(masked(message)).split())}", file=sys.stderr, flush=True)


def masked(shown: T) -> T:
    """A text, or what holds texts, without the secrets of this process's environment.

    Args:
        shown: What is shown and has not passed an agent as an event: an error, a traceback, a request.
    """
    return Mask(environment_secrets(os.environ)).of(shown)


def written(text: str, output: Path | None) -> None:
    """Write what a command has made to stdout, or into a file.

    Args:
        text: What it has made.
        output: The file; None for stdout.

    Raises:
        RecordError: If the file cannot be written; it is not there then.
    """
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, "utf-8", "replace")
    except OSError as error:
        with contextlib.suppress(OSError):
            output.unlink()
        raise RecordError(f"{output} cannot be written: {error.strerror or error}") from error


class CleanFormatter(logging.Formatter):
    """Writes what is logged as text: it may tell of what a kernel or a server has sent."""

    def format(self, record: logging.LogRecord) -> str:
        """As the one it is a kind of."""
        return clean(masked(super().format(record)))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody sits at the other end of a stream."""
    return stream is not None and not stream.closed and stream.isatty()


class Answers:
    """The stdout of a command, which belongs to the answer.

    Args:
        stream: Where it is written.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.terminal = is_terminal(stream)
        self.failure: OSError | None = None
        """Why an event could not be written, or None."""
        self.on_failure: Callable[[], object] = lambda: None
        """Called once when an event cannot be written: nobody listens any more."""

    def write(self, text: str) -> None:
        """Write a text as a line or lines.

        Args:
            text: The answer; to a file or a pipe it goes unchanged.

        Raises:
            CodeactError: If stdout does not take it.
        """
        try:
            self._line(clean(text) if self.terminal else text)
        except OSError as error:
            raise self._refused(error) from error

    def event(self, event: Event) -> None:
        """Write an event as a line of JSON. An `Observer`: what goes wrong is kept in `failure`.

        Args:
            event: The next event.
        """
        if self.failure is not None:
            return
        try:
            self._line(json_line(event))
        except OSError as error:
            self.failure = error
            self.on_failure()

    def check(self) -> None:
        """Raise what `event` could not.

        Raises:
            CodeactError: If an event could not be written.
        """
        if self.failure is not None:
            raise self._refused(self.failure)

    def _line(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        self._stream.flush()

    def _refused(self, error: OSError) -> CodeactError:
        return CodeactError(f"stdout cannot be written: {error.strerror or error}")


@contextlib.contextmanager
def answers() -> Iterator[Answers]:
    """Keep stdout for the answer: what else is printed meanwhile, by tools and their children too, goes to stderr.

    Raises:
        CodeactError: If stdout is closed.
    """
    with own_stdout() as stream:
        yield Answers(stream)


@contextlib.contextmanager
def own_stdout() -> Iterator[TextIO]:
    """Have stdout alone: what else is printed meanwhile goes to stderr.

    Raises:
        CodeactError: If stdout is closed.
    """
    if sys.stdout is None:
        raise CodeactError("stdout is closed, so there is no place for an answer")
    with _kept(sys.stdout) as stream, contextlib.redirect_stdout(sys.stderr):
        yield stream


@contextlib.contextmanager
def _kept(stream: TextIO) -> Iterator[TextIO]:
    """Keep a stream under another number, and let its own number lead to stderr."""
    stream.flush()
    try:
        number, other = stream.fileno(), sys.stderr.fileno()
    except (OSError, AttributeError):
        yield stream  # no file of the system is behind it, so no child process can write there
        return
    kept = open(os.dup(number), "w", encoding=stream.encoding)  # noqa: SIM115 - closed below, where it may fail
    os.dup2(other, number)
    try:
        yield kept
    finally:
        os.dup2(kept.fileno(), number)
        with contextlib.suppress(OSError):  # told already, when it was written
            kept.close()


def json_line(event: Event) -> str:
    """Write an event as JSON on one line.

    Args:
        event: The event. Bytes become base64, numbers that JSON has not become null, other foreign values text.
    """
    value = to_json(event)
    try:
        return json.dumps(value, default=_plain_value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=_plain_value, allow_nan=False)


def _plain_value(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list():
            return [_finite(item) for item in value]
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value

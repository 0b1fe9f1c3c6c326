"""A run as its record tells of it: read, and never run.

Comes in: a run's folder, its journal, or its notebook alone. Goes out: `RecordedRun`: turns, blocks, the notebook, the
messages that the model read, a frame, a page for a notebook's cell.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeact_kernel.agent.past import reply_parser
from codeact_kernel.agent.recording import JOURNAL, NOTEBOOK
from codeact_kernel.blocks import (
    AgentBlock,
    CodeBlock,
    DisplayOutput,
    ErrorOutput,
    ResultOutput,
    StreamOutput,
)
from codeact_kernel.context import visible
from codeact_kernel.controls import plain
from codeact_kernel.dialogue import codec
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import Entry, Event, Knowledge, Reply, RunResumed, RunStarted, StopReason
from codeact_kernel.messages import Message, Usage
from codeact_kernel.record import (
    Notebook,
    Overview,
    notebook_events,
    read_journal,
    read_notebook,
    to_notebook,
)
from codeact_kernel.transcript import BlockRecord, RunRecord, Transcript, Turn

if TYPE_CHECKING:
    import pandas as pd

_TURNS, _SHOWN = 20, 600
"""Turns that a page in a cell shows, and characters of each text in it."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run that was recorded; of a chat all its runs."""

    path: Path
    """What it was read from."""
    transcript: Transcript

    @classmethod
    def load(cls, path: str | Path) -> RecordedRun:
        """Read a record. Whose it is does not matter: nothing of it runs.

        Args:
            path: A run's folder, of which the journal counts, or else the notebook; or one of the two files.

        Raises:
            ConfigError: If there is no record.
            RecordError: If it cannot be read.
        """
        source = _source(Path(path).expanduser())
        transcript = Transcript()
        for event in events_of(source):
            transcript.apply(event)
        if not transcript.runs:
            raise ConfigError(f"{source} tells of no run")
        return cls(source, transcript)

    @property
    def last(self) -> RunRecord:
        """The latest of its runs."""
        return self.transcript.runs[-1]

    @property
    def about(self) -> RunStarted | RunResumed:
        """What tells of the model, the kernel, the sandbox and the options."""
        return self.last.now

    @property
    def task(self) -> str:
        """The latest task."""
        return self.last.start.task

    @property
    def stop(self) -> StopReason | None:
        """Why it ended; None where its record has no end."""
        return self.last.stop

    @property
    def answer(self) -> str | None:
        """The latest answer; None where there is none."""
        return self.last.end.answer if self.last.end else None

    @property
    def usage(self) -> Usage:
        """What it used, with its sub-agents."""
        return self.transcript.usage

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns of all its runs, in order."""
        return tuple(turn for run in self.transcript.runs for turn in run.turns)

    @property
    def blocks(self) -> tuple[BlockRecord, ...]:
        """All blocks, in the order in which they were queued."""
        return tuple(record for turn in self.turns for record in turn.blocks)

    @property
    def notebook(self) -> Path:
        """The notebook that it was read from, or the one beside the journal.

        Raises:
            ConfigError: If there is none.
        """
        notebook = self.path.with_name(NOTEBOOK) if self.path.suffix == ".jsonl" else self.path
        if not notebook.is_file():
            raise ConfigError(f"the run's notebook, {notebook}, is not there")
        return notebook

    def to_notebook(self) -> Notebook:
        """The notebook, as plain JSON values."""
        return to_notebook(self.transcript)

    def messages(self, *, system: bool = True) -> list[dict[str, Any]]:
        """The messages that the model had before it at the end, as Chat Completions has them.

        Args:
            system: Whether they begin with the system prompt.
        """
        return self._written(list(visible(self.transcript.entries)), system)

    def samples(self, *, system: bool = True) -> list[list[dict[str, Any]]]:
        """All that the model has read and said, as conversations that each end with a reply.

        Args:
            system: As for `messages`.

        Returns:
            One for each stretch between compactions.
        """
        stretches: list[list[Entry]] = [[]]
        for entry in self.transcript.entries:
            if isinstance(entry, Knowledge):
                stretches.append([])
            stretches[-1].append(entry)
        for stretch in stretches:
            while stretch and not isinstance(stretch[-1], Reply):
                stretch.pop()
        return [self._written(stretch, system) for stretch in stretches if stretch]

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The functions that its model could call, as Chat Completions has them; none where it wrote blocks as text."""
        mentioned = "run_agent" in self.last.start.system or any(
            isinstance(record.block, AgentBlock) for record in self.blocks
        )
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in codec(self._protocol, agents=mentioned).tools
        ]

    def frame(self) -> pd.DataFrame:
        """A row for each block: where it stands, how it ended, when it ran, what it did and printed."""
        import pandas as pd

        rows = [
            {
                "turn": record.turn,
                "id": record.id,
                "kind": "run_code" if isinstance(record.block, CodeBlock) else "run_agent",
                "status": record.result.status if record.result else None,
                "lane": record.lane,
                "queued": pd.Timestamp(record.queued, unit="s", tz="UTC"),
                "seconds": record.result.duration if record.result else None,
                "source": record.block.code if isinstance(record.block, CodeBlock) else record.block.task,
                "output": output_text(record),
                "error": record.result.outcome.error if record.result else None,
            }
            for record in self.blocks
        ]
        return pd.DataFrame(rows)

    def _written(self, entries: list[Entry], system: bool) -> list[dict[str, Any]]:
        # The boundaries of messages come from a key: the same ones each time for the same run.
        key = hashlib.sha256(self.last.start.run_id.encode("utf-8", "replace")).digest()
        talk = codec(self._protocol, secret=key)
        return [_message(m) for m in talk.messages(self.last.start.system if system else None, entries)]

    @property
    def _protocol(self) -> str:
        return str(self.about.options.get("protocol", "tags"))

    @property
    def figures(self) -> dict[str, str]:
        """What it has come to, in words, by name: state, turns, blocks, sub-agents, tokens, cost, time."""
        return self._overview().figures(self.transcript)

    def _overview(self) -> Overview:
        overview = Overview.of(self.transcript)
        overview.add(self.transcript.runs)
        return overview

    def _repr_html_(self) -> str:
        """A small page, in which everything of a stranger's is text."""
        overview = self._overview()
        figures = overview.figures(self.transcript)
        parts = [
            f"<h3>{_shown(self.task)}</h3>",
            f"<table><tr>{_cells('th', figures)}</tr><tr>{_cells('td', figures.values())}</tr></table>",
            f'<img alt="which block ran when" src="{overview.picture()}">',
        ]
        for turn in self.turns[:_TURNS]:
            parts += _turn(turn)
        if len(self.turns) > _TURNS:
            parts.append(f"<p>and {len(self.turns) - _TURNS:,} more turns</p>")
        if self.answer is not None:
            parts.append(f"<h4>Answer</h4><pre>{_shown(self.answer)}</pre>")
        return f"<div>{''.join(parts)}</div>"


def events_of(source: Path) -> list[Event]:
    """The events of a record.

    Args:
        source: A journal, which has all of them, or a notebook, which has those that its cells tell of.

    Raises:
        RecordError: If it cannot be read.
    """
    events: list[Event] = []
    if source.suffix == ".ipynb":
        notebook = read_notebook(source)
        options = notebook["metadata"]["codeact"].get("options", {})
        events += notebook_events(notebook, reply_parser(str(options.get("protocol", "tags"))))
    else:
        read_journal(source, events.append, None)
    return events


def output_text(record: BlockRecord) -> str:
    """What a block put out, as text.

    Args:
        record: The block.
    """
    pieces = []
    for output in record.outputs.outputs(record.file):
        match output:
            case StreamOutput():
                pieces.append(output.text)
            case ResultOutput() | DisplayOutput():
                pieces.append(f"{output.data.get('text/plain', '')}\n")
            case ErrorOutput():
                pieces.append(f"{output.ename}: {output.evalue}\n")
            case _:
                pass
    return plain("".join(pieces))


def _source(path: Path) -> Path:
    if not path.is_dir():
        if not path.is_file():
            raise ConfigError(f"there is no record in {path}")
        return path
    for name in (JOURNAL, NOTEBOOK):
        if (path / name).is_file():
            return path / name
    raise ConfigError(f"there is no record in {path}: neither {JOURNAL} nor {NOTEBOOK}")


def _message(message: Message) -> dict[str, Any]:
    """A message as Chat Completions has it; of images it says that there were some."""
    told: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        told["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        told["tool_call_id"] = message.tool_call_id
    return told


def _turn(turn: Turn) -> Iterator[str]:
    states = ", ".join(f"{b.id} {b.result.status if b.result else 'running'}" for b in turn.blocks)
    yield f"<details><summary>Turn {turn.number}{': ' if states else ''}{_shown(states)}</summary>"
    if turn.reply:
        yield f"<pre>{_shown(turn.reply.text)}</pre>"
    for record in turn.blocks:
        yield f"<p>{_shown(record.id)}:</p><pre>{_shown(output_text(record))}</pre>"
    yield "</details>"


def _cells(tag: str, texts: Any) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)


def _shown(text: str) -> str:
    text = plain(text)
    return html.escape(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")

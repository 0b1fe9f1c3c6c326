"""What an agent does, in a line each: what its parent reads of it while it works.

Comes in: the events of a sub-agent. Goes out: lines of text.
"""

from __future__ import annotations

from collections.abc import Callable

from codeact_kernel.blocks import AgentBlock, BlockResult, Prose, format_duration
from codeact_kernel.events import Appended, BlockFinished, BlockQueued, Event, Reply

WIDTH = 160
"""Characters of a line: enough for a sentence; a parent with ten sub-agents reads ten of them."""


class Digest:
    """Follows one agent.

    Args:
        write: Gets each line, with its line end.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self.turns = 0
        """The replies of its model so far."""
        self.last = ""
        """The last line."""

    def __call__(self, event: Event) -> None:
        """Take an event (an `Observer`)."""
        match event:
            case Appended(entry=Reply() as reply):
                self.turns += 1
                prose = " ".join(part.text for part in reply.parts if isinstance(part, Prose))
                self._say(prose)
            case BlockQueued():
                block = event.block
                text = block.task if isinstance(block, AgentBlock) else block.code
                self._say(f"▸ {event.id}: {_first_line(text)}")
            case BlockFinished():
                self._say(_ended(event.result))
            case _:
                pass

    def _say(self, text: str) -> None:
        line = " ".join(text.split())
        if line:
            self.last = line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
            self._write(f"{self.last}\n")


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def _ended(result: BlockResult) -> str:
    if result.status == "ok":
        return f"✓ {result.id} {format_duration(result.duration)}"
    lines = (result.outcome.error or "").strip().splitlines()
    return f"✗ {result.id} {result.status}{': ' + lines[-1] if lines else ''}"

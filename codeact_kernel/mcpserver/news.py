"""What of the blocks the client has not been told yet.

Comes in: the events of blocks. Goes out: of each block what is new, once: no text is told twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from codeact_kernel.blocks import BlockResult, ClearOutput, Output, StreamOutput
from codeact_kernel.dialogue import held_report
from codeact_kernel.events import BlockFinished, BlockHeld, BlockOutput, BlockQueued, Event, Report
from codeact_kernel.excerpt import Excerpt


@dataclass(slots=True)
class _Untold:
    """A block of which not everything was told."""

    fresh: Excerpt = field(default_factory=Excerpt)
    spoke: bool = False
    """Whether there is something to see in what is fresh."""


class News:
    """Keeps what has not been told. What a block's threads put out after its end is left to `self.output`."""

    def __init__(self) -> None:
        self._untold: dict[str, _Untold] = {}
        self._results: dict[str, BlockResult] = {}
        self._attended: list[str] = []
        self._held: dict[str, dict[str, None]] = {}
        self._reports: list[Report] = []

    def take(self, event: Event) -> None:
        """Take an event.

        Args:
            event: The next one.
        """
        match event:
            case BlockQueued():
                self._untold[event.id] = _Untold()
            case BlockOutput(late=False):
                block = self._untold[event.id]
                block.fresh.add(event.output)
                block.spoke = block.spoke or _is_seen(event.output)
            case BlockFinished():
                self._results[event.result.id] = event.result
            case BlockHeld():
                self._held.setdefault(event.by, {})[event.id] = None
            case _:
                pass

    def add(self, report: Report) -> None:
        """Add something that is about no block.

        Args:
            report: What the client shall know.
        """
        self._reports.append(report)

    def attend(self, id: str) -> None:  # noqa: A002
        """Leave a block to the call that has just started it, until `leave`."""
        self._attended.append(id)

    def leave(self, id: str) -> None:  # noqa: A002
        """Tell of a block to whoever asks, again."""
        self._attended.remove(id)

    def is_attended(self, id: str | None) -> bool:  # noqa: A002
        """Whether a block is left to a call."""
        return id in self._attended

    @property
    def known(self) -> list[str]:
        """All blocks."""
        return [*self._results, *self.running(self._untold)]

    def ended(self, ids: Iterable[str] | None = None) -> list[str]:
        """The blocks that have ended, of which that was not told.

        Args:
            ids: Of these; None for all that no call attends to.
        """
        return [name for name in self._of(ids) if name in self._untold and name in self._results]

    def running(self, ids: Iterable[str] | None = None) -> list[str]:
        """The blocks that have not ended; as in `ended`."""
        return [name for name in self._of(ids) if name not in self._results]

    def spoken(self, ids: Iterable[str] | None = None) -> bool:
        """Whether one that has not ended has put out something that was not told; as in `ended`."""
        return any(self._untold[name].spoke for name in self.running(ids))

    @property
    def is_pressing(self) -> bool:
        """Whether there is something about no block, or about blocks that cannot go on."""
        return bool(self._reports or self._held)

    def result(self, id: str) -> BlockResult | None:  # noqa: A002
        """A block's end, told or not; None where it has not ended."""
        return self._results.get(id)

    def fresh(self, id: str) -> tuple[Output, ...]:  # noqa: A002
        """What a block has put out since it was told of; it counts as told from now on, its end too."""
        block = self._untold.pop(id, _Untold())
        if id not in self._results:
            self._untold[id] = _Untold()
        return block.fresh.outputs()

    def others(self) -> list[Report]:
        """What is about no block, and of blocks that cannot go on; it counts as told from now on."""
        reports = [*self._reports, *(held_report(by, list(held)) for by, held in self._held.items())]
        self._reports.clear()
        self._held.clear()
        return reports

    def _of(self, ids: Iterable[str] | None) -> list[str]:
        return [name for name in self._untold if name not in self._attended] if ids is None else list(ids)


def _is_seen(output: Output) -> bool:
    match output:
        case StreamOutput():
            return bool(output.text.strip())
        case ClearOutput():
            return False
        case _:
            return True

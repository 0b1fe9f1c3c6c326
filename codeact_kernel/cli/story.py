"""A run told to somebody who sees one for the first time.

Comes in: the events of a run. Goes out: who does what, in order, on stderr, whether that is a terminal or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from codeact_kernel.cli.progress import Progress
from codeact_kernel.cli.screens import LiveScreen
from codeact_kernel.cli.streams import clean
from codeact_kernel.cli.told import code_lines, output_lines
from codeact_kernel.events import BlockFinished, BlockQueued, Event, RunEnded, RunStarted

if TYPE_CHECKING:
    from codeact_kernel.agent import Run

WHAT = "Here a language model acts by writing Python into a real IPython kernel."
NEXT = """\
The record is a notebook, which Jupyter opens. Your turn:
  codeact run --model local "How many letters are in 'strawberry'?"
  codeact chat --model NAME --base-url URL      (any OpenAI-compatible endpoint)"""


class Story(LiveScreen):
    """Tells a run."""

    def __init__(self) -> None:
        super().__init__()
        self.can_ask = False
        # Only for what is going on: what stays is told here, in more words.
        self.progress = Progress(lambda what: None)

    def __call__(self, event: Event) -> None:
        """Tell an event."""
        super().__call__(event)
        match event:
            case RunStarted():
                self.show(Text(WHAT, style="bold"), Text())
                for name, value in (
                    ("model", event.model),
                    ("kernel", event.kernel),
                    ("sandbox", event.sandbox),
                    ("task", event.task),
                ):
                    self.show(Text.assemble((f"{name:<8}", "dim"), clean(value)))
            case BlockQueued():
                self.show(
                    Text(), Text("The model writes a block of code:", style="bold"), *code_lines(event.block)
                )
            case BlockFinished(result=result):
                said = output_lines(result) or [Text("  (nothing)", style="dim")]
                self.show(Text(), Text("The kernel runs it, and the model reads:", style="bold"), *said)
            case RunEnded(stop="answered"):
                self.show(Text(), Text("The model answers:", style="bold"))
            case _:
                pass

    def ended(self, run: Run) -> None:
        """Say what it took, and what to do next."""
        self.show(Text())
        super().ended(run)
        self.show(Text(), Text(NEXT))

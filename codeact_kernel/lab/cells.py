"""All that a notebook shows of one run: its cells, its bar, its questions.

Comes in: the events of an agent and its sub-agents. Goes out: what changed, as operations for a page; the whole, for a
page that comes later, and for HTML and text.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from codeact_kernel.events import Event
from codeact_kernel.lab.cell import Cell, Kind, Operation
from codeact_kernel.lab.telling import Teller


class Cells:
    """The cells of one run, in their order.

    Args:
        run: The run's key.
        task: What the person wrote.
        protocol: How the model writes blocks.
        changed: Called when something has changed.
        wall: The time in seconds since the epoch.
    """

    def __init__(
        self,
        run: str,
        task: str,
        protocol: str = "tags",
        changed: Callable[[], None] = lambda: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.run = run
        self.task = task
        self.protocol = protocol
        self.wall = wall
        self.all: list[Cell] = []
        self.bar: dict[str, Any] = {
            "state": "working",
            "text": "",
            "model": "",
            "started": wall(),
            "ended": None,
            "turns": 0,
            "tokens": 0,
            "cost": None,
            "context": None,
            "blocks": [],
        }
        self.answer: str | None = None
        self.questions: dict[str, Operation] = {}
        """Those that nobody has answered: each as it is told."""
        self._told_questions: set[str] = set()
        self._answers: dict[str, str] = {}
        self._told_bar: dict[str, Any] = {}
        self._n = 0
        self._changed = changed
        self._dirty = set[Cell]()
        self._teller = Teller(self)

    # -- what happens -------------------------------------------------------------------------------------

    def __call__(self, event: Event) -> None:
        """Take an event of the agent; as `TreeObserver`."""
        self._teller(event)

    def of_agent(self, name: str) -> Teller:
        """Take those of a sub-agent; as `TreeObserver`."""
        return self._teller.of_agent(name)

    def add(self, kind: Kind, depth: int, after: Cell | None, **about: Any) -> Cell:
        """Add a cell.

        Args:
            kind: What it is.
            depth: How many sub-agents it is below the agent.
            after: Below which one it stands, and all that is below that one's sub-agent; None for above all others.
            **about: Further fields.
        """
        cell = Cell(f"{self.run}-{len(self.all)}", kind, depth, **about)
        at = 0 if after is None else self.all.index(after) + 1
        while at < len(self.all) and self.all[at].depth > (depth if after is None else after.depth):
            at += 1
        self.all.insert(at, cell)
        self.touch(cell)
        return cell

    def touch(self, cell: Cell) -> None:
        """Take that a cell has changed."""
        self._dirty.add(cell)
        self._changed()

    def put(self, **bar: Any) -> None:
        """Change what the bar says."""
        self.bar |= bar
        self._changed()

    def ask(self, question: str, **about: Any) -> None:
        """Ask somebody; see `ask` in the list of operations."""
        self.questions[question] = {"op": "ask", "question": question, **about}
        self._changed()

    def asked(self, question: str, answer: str) -> None:
        """Take that a question was decided."""
        if self.questions.pop(question, None) is not None:
            self._answers[question] = answer
            self._changed()

    # -- what a page is told ------------------------------------------------------------------------------

    def take(self) -> tuple[int, list[Operation]] | None:
        """What has changed since it was last taken, with its number; None where nothing has."""
        made = [
            operation
            for cell in (self.all if self._dirty else ())
            if cell in self._dirty
            for operation in cell.operations()
        ]
        self._dirty.clear()
        made += [about for name, about in self.questions.items() if name not in self._told_questions]
        made += [
            {"op": "asked", "question": name, "answer": answer} for name, answer in self._answers.items()
        ]
        self._told_questions = set(self.questions)
        self._answers.clear()
        if self.bar != self._told_bar:
            self._told_bar = dict(self.bar)
            made.append({"op": "bar", **self.bar})
        if not made:
            return None
        self._n += 1
        return self._n - 1, made

    def snapshot(self) -> tuple[int, list[Operation]]:
        """The number of the last change, -1 before the first, and the operations that make all that is there now."""
        for cell in self.all:
            cell.forget()
            self._dirty.add(cell)
        self._told_bar, self._told_questions = {}, set()
        before, taken = self._n, self.take()
        self._n = before
        return before - 1, taken[1] if taken else []

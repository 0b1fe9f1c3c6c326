"""One run as the cell that has begun it sees it.

Comes in: what the host says of the run. Goes out: an output that is updated, or lines in a terminal; the run's end. The
thread of the cell waits here, so that the stop button reaches it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from codeact_kernel.inkernel.magic.link import AgentError, Link

_STEP = 0.2
"""Seconds between two looks at whether something was pressed."""


class AgentStopped(KeyboardInterrupt):
    """The person has stopped the agent. It is shown without a traceback; cells that wait behind it do not run."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class Running:
    """A run.

    Args:
        shell: IPython's shell.
        link: The line to the host.
        about: The run, as pages are told of it.
        terminal: Whether text is printed, and no output is updated.
    """

    def __init__(self, shell: Any, link: Link, about: dict[str, Any], *, terminal: bool) -> None:
        self.key: str = about["run"]
        self.about = about
        self.end: dict[str, Any] | None = None
        self.presses = 0
        """How often the person has pressed stop."""
        self.questions: dict[str, dict[str, Any]] = {}
        """What waits for a decision."""
        self._shell = shell
        self._link = link
        self._terminal = terminal
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._in_cell = True
        """Whether the cell waits: then all is shown by its thread."""
        self._then: Callable[[dict[str, Any]], None] = lambda end: None
        self._lock = threading.Lock()

    def take(self, message: dict[str, Any]) -> None:
        """Take what the host says; in its thread."""
        if message["tell"] == "cells":
            self._note(message["ops"])
        with self._lock:
            if self._in_cell:
                self._said.put(message)
                return
        self._show(message)

    def wait(self, ask: bool) -> dict[str, Any]:
        """Show what happens until the run has ended.

        Args:
            ask: Whether questions are asked here, where no page asks them.

        Returns:
            Its end, also where the person has pressed stop: it may have been answered already.
        """
        with self._lock:
            self._in_cell = True
        while self.end is None:
            try:
                self._show(self._said.get(timeout=_STEP))
                if ask and self.questions:
                    self._ask()
            except queue.Empty:
                continue
            except KeyboardInterrupt:
                self.presses += 1
                with suppress(AgentError):  # it has just ended by itself
                    self._link.ask("stop" if self.presses == 1 else "end", run=self.key)
        return self.end

    def stopped(self) -> AgentStopped:
        """What the cell raises when the run was stopped."""
        at = (self.end or {}).get("at")
        where = f"in block {at}" if at else "before its first block"
        goes_on = (
            "and has ended: the next `%agent` begins a new one"
            if self.presses > 1
            else "and `%agent` goes on with it"
        )
        return AgentStopped(f"The agent was stopped {where}, {goes_on}.")

    def leave(self, then: Callable[[dict[str, Any]], None]) -> None:
        """Let the cell end while the run goes on: from now on all is shown from the host's thread.

        Args:
            then: Called with the run's end, in that thread.
        """
        with self._lock:
            self._then = then
            while not self._said.empty():
                self._show(self._said.get())
            self._in_cell = False

    @property
    def is_left(self) -> bool:
        """Whether it was left to go on in the background, and nobody has waited for it."""
        return not self._in_cell

    def begin(self) -> None:
        """Put the output there that is updated."""
        if not self._terminal:
            self._publish({"text/plain": "[the agent starts]"}, update=False)

    def _note(self, operations: list[dict[str, Any]]) -> None:
        for operation in operations:
            if operation["op"] == "ask":
                self.questions[operation["question"]] = operation
            elif operation["op"] == "asked":
                self.questions.pop(operation["question"], None)

    def _show(self, message: dict[str, Any]) -> None:
        match message["tell"]:
            case "display":
                self._publish(message["data"], update=True)
            case "step":
                input("— Enter shows the next turn —")
                self._link.ask("next", run=self.key)
            case "text":
                print(message["text"], flush=True)
            case "ended":
                try:
                    self._then(message)
                except AgentError as error:  # who waits for it later is told, and who does not, here
                    message = message | {"stop": "failed", "message": str(error)}
                    print(error)
                self.end = message
            case "gone":
                self.end = {"stop": "failed", "message": message["message"], "answer": None, "file": None}

    def _publish(self, data: dict[str, Any], *, update: bool) -> None:
        self._shell.display_pub.publish(data, {}, transient={"display_id": self.key}, update=update)

    def _ask(self) -> None:
        """Ask by the kernel's own means: a line that is read, in a terminal or below the cell."""
        name, about = next(iter(self.questions.items()))
        print("\n".join(filter(None, [about["title"], about["why"], about["diff"] or about["text"]])))
        said = input("[y]es, [a]lways, or why not: ").strip()
        word = {"": "no", "y": "yes", "yes": "yes", "a": "always", "always": "always", "n": "no", "no": "no"}
        answer = word.get(said.lower(), "no")
        reason = "" if said.lower() in word else said
        try:
            self._link.ask("answer", run=self.key, question=name, answer=answer, reason=reason)
        except AgentError as error:
            print(error)
        self.questions.pop(name, None)

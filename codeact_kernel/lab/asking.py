"""Questions to the person: what an agent wants to do is shown, and waits for a yes or a no.

Comes in: requests of the gate. Goes out: questions among the cells of the run, and the person's answers.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from codeact_kernel.approval import ALWAYS, NO, YES, Answer, Request, changed_answer, text_of, with_text
from codeact_kernel.errors import ConfigError
from codeact_kernel.lab.cells import Cells

ANSWERS = ("yes", "no", "always")


class Asking:
    """Asks about one agent's wishes; an `Approver`.

    Args:
        cells: Gives the cells of the run that goes on; None where none does.
    """

    def __init__(self, cells: Callable[[], Cells | None]) -> None:
        self._cells = cells
        self._numbers = itertools.count(1)
        self._waiting: dict[str, tuple[Request, asyncio.Future[Answer]]] = {}

    async def __call__(self, request: Request) -> Answer:
        """Ask, and wait for the answer."""
        cells, name = self._cells(), f"q{next(self._numbers)}"
        if cells is None:
            return NO
        self._waiting[name] = request, asyncio.get_running_loop().create_future()
        cell = next((cell for cell in reversed(cells.all) if cell.block == request.block_id), None)
        before, said = cell.state if cell else "", "no"
        if cell is not None and request.block is not None:
            cell.state = "asking"
            cells.touch(cell)
        cells.put(state="asking", text=f"{request.name}: {request.why}")
        cells.ask(name, id=cell.id if cell else None, **_shown(request))
        try:
            answer = await self._waiting[name][1]
            said = "yes" if answer.allowed else "no"
            return answer
        finally:
            del self._waiting[name]
            cells.asked(name, said)
            if cell is not None and cell.state == "asking":
                cell.state = before
                cells.touch(cell)
            if cells.bar["state"] == "asking" and not self._waiting:
                cells.put(state="working", text="")

    def answer(self, question: str | None, answer: str, reason: str = "", text: str | None = None) -> None:
        """Take a person's answer.

        Args:
            question: Which question; None for the oldest.
            answer: "yes", "no" or "always".
            reason: Why not, for the model.
            text: What runs instead; None for what was asked about.

        Raises:
            ConfigError: If nobody asks that, or that is no answer.
        """
        name = next(iter(self._waiting), None) if question is None else question
        if name is None or name not in self._waiting:
            raise ConfigError("nothing waits for a decision")
        if answer not in ANSWERS:
            raise ConfigError(f"{answer!r} is no answer; it is one of {', '.join(ANSWERS)}")
        request, future = self._waiting[name]
        if future.done():
            return
        said = {"yes": YES, "always": ALWAYS, "no": Answer(False, reason)}[answer]
        if text is not None and answer != "no":
            said = _edited(request, text, said)
        future.set_result(said)


def _edited(request: Request, text: str, said: Answer) -> Answer:
    try:
        if text == text_of(request)[0]:
            return said
        return changed_answer(said, request, with_text(request, text))
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _shown(request: Request) -> dict[str, Any]:
    try:
        text, ending = text_of(request)
    except ValueError:
        text, ending = "", ""
    whose = "" if request.agent == "the agent" else f" of {request.agent}"
    what = f"Run {request.block_id or 'a block'}{whose}?" if request.block else f"Call {request.name}{whose}?"
    return {
        "title": what,
        "why": request.why,
        "text": text,
        "ending": ending,
        "diff": request.preview,
        "always": request.always,
    }

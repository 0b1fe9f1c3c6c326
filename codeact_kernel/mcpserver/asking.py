"""Asks the person in front of a client, by the client's own means (MCP calls it elicitation).

Comes in: requests of the gate. Goes out: forms for a person, and what they have said as answers. A form goes out with a
call of the client's that waits, since no other way leads to every client; with none it waits for the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from codeact_kernel.agent import told_in_notebook
from codeact_kernel.approval import Answer, Request, changed_answer, with_text
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.masking import Mask

TRIES = 3
"""How often is asked where what comes back is no answer."""
LEASE = 600.0
"""Seconds after which a form is given to another call, where the one that had it has ended with it; ours."""


Wants = Callable[[str | None], bool]
"""Whether a call has to do with questions about a block, by the block's id."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a client shows to its person, and what it gets back."""

    message: str
    schema: dict[str, Any]


class Question:
    """One form on its way.

    Args:
        number: Tells it from others.
        block_id: The block that it is about.
        form: What is asked.
    """

    def __init__(self, number: int, block_id: str | None, form: Form) -> None:
        self.number = number
        self.block_id = block_id
        self.form = form
        self.filled: asyncio.Future[tuple[str, Mapping[str, Any]]] = (
            asyncio.get_running_loop().create_future()
        )
        self.is_carried = False
        """Whether a call has it."""

    @property
    def is_open(self) -> bool:
        """Whether nobody has filled it in."""
        return not self.filled.done()

    @property
    def is_free(self) -> bool:
        """Whether a call may take it."""
        return self.is_open and not self.is_carried


class Asking:
    """Asks the person of one client; an `Approver`.

    Args:
        mask: Knows the secrets that no client is told.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._number = 0
        self._question: Question | None = None
        self._changed = asyncio.Event()

    async def __call__(self, request: Request) -> Answer:
        """Ask; called with one request at a time.

        Args:
            request: What wants to happen.
        """
        wrong = ""
        for _ in range(TRIES):
            try:
                form = form_of(request, self._mask, wrong)
                return _answer(request, *await self._ask(request.block_id, form))
            except ValueError as error:
                wrong = str(error)
        return Answer(False, f"what was said is no answer: {wrong}")

    def is_carried(self, wants: Wants) -> bool:
        """Whether a form is with a call, and not filled in yet.

        Args:
            wants: Which one.
        """
        question = self._question
        return question is not None and question.is_open and question.is_carried and wants(question.block_id)

    async def carry(self, wants: Wants) -> Question:
        """Wait for a form that no other call has, and take it. Who does not bring it back filled in releases it.

        Args:
            wants: Which one.
        """
        while True:
            question = self._question
            if question is not None and question.is_free and wants(question.block_id):
                question.is_carried = True
                return question
            await self._changed.wait()

    def look_again(self) -> None:
        """Let calls look again for a form that they want."""
        self._changed.set()
        self._changed = asyncio.Event()

    def release(self, question: Question) -> None:
        """Leave a form to another call, where nobody has filled it in.

        Args:
            question: The form.
        """
        question.is_carried = False
        self.look_again()

    def lend(self, question: Question) -> None:
        """Leave a form to a client whose call ends with it, and that comes again with what was said.

        Args:
            question: The form.
        """
        asyncio.get_running_loop().call_later(LEASE, self.release, question)

    def fill(self, number: int, action: str, content: Mapping[str, Any] | None) -> None:
        """Take what a person has said; does nothing where that is asked no more.

        Args:
            number: The form's.
            action: "accept", "decline" or "cancel".
            content: What was filled in.
        """
        question = self._question
        if question is not None and question.number == number and question.is_open:
            question.filled.set_result((action, content or {}))

    async def _ask(self, block_id: str | None, form: Form) -> tuple[str, Mapping[str, Any]]:
        self._number += 1
        question = self._question = Question(self._number, block_id, form)
        self.look_again()
        try:
            return await question.filled
        finally:
            self._question = None


def form_of(request: Request, mask: Mask, wrong: str = "") -> Form:
    """Write a form.

    Args:
        request: What is asked.
        mask: Knows the secrets that are not told.
        wrong: Why what was said before is no answer.
    """
    said = [f"That was no answer: {wrong}"] if wrong else []
    choices = ["yes", "no", *(["always"] if request.always else [])]
    about = f"always: {request.always}, for the rest of this session" if request.always else ""
    instead = "code" if isinstance(request.block, CodeBlock) else "task"
    if request.block is None:
        instead = "arguments, as a JSON object,"
    return Form(
        mask.text("\n".join([*said, *told_in_notebook(request)])),
        {
            "type": "object",
            "properties": {
                "decision": {"type": "string", "enum": choices, "description": mask.text(about)},
                "reason": {"type": "string", "description": "why not; the model reads it"},
                "instead": {"type": "string", "description": f"other {instead} to take; all of it"},
            },
            "required": ["decision"],
        },
    )


def _answer(request: Request, action: str, content: Mapping[str, Any]) -> Answer:
    """What a person has said.

    Raises:
        ValueError: If it is no answer.
    """
    if action != "accept":
        return Answer(False, "" if action == "decline" else "the person has closed the question")
    decision, instead = content.get("decision"), str(content.get("instead") or "")
    if decision == "no":
        return Answer(False, str(content.get("reason") or ""))
    if decision not in ("yes", "always") or (decision == "always" and not request.always):
        raise ValueError(f"{decision!r} is none of the decisions")
    now = with_text(request, instead) if instead.strip() else request
    return changed_answer(Answer(True, always=decision == "always"), request, now)

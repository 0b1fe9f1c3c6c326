"""The two doors of the gate: blocks before they start, and calls of tools before they are made.

Comes in: jobs and calls of one agent. Goes out: what may be done, and how; a refusal, whose text the model reads; an
event for each decision.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from codeact_kernel.approval import Answer, Call, Passed, Request, ToolClass
from codeact_kernel.blocks import Block, CodeBlock, Job, Outcome
from codeact_kernel.errors import CodeactError, ToolError
from codeact_kernel.events import ApprovalAsked, Decided
from codeact_kernel.policy.gate import Gate, Ruling, standing
from codeact_kernel.policy.subjects import UNKNOWN, Subject, of_block, of_call
from codeact_kernel.protocols import Observer

_PASSED = Passed()


class Doors:
    """The doors of one agent.

    Args:
        gate: The run's.
        agent: Whose doors they are.
        emit: Gets each decision.
        standing_still: Lets a block's deadline stand still while its call waits for a person.
        wall: The time in seconds since the epoch.
    """

    def __init__(
        self,
        gate: Gate,
        agent: str,
        emit: Observer,
        standing_still: Callable[[str | None], AbstractContextManager[None]] = lambda block_id: nullcontext(),
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._gate = gate
        self._agent = agent
        self._emit = emit
        self._standing_still = standing_still
        self._wall = wall

    # -- the first door -----------------------------------------------------------------------------------

    def block(self, job: Job) -> Job | Outcome | Awaitable[Job | Outcome]:
        """Decide about a block.

        Args:
            job: The block and its settled id.

        Returns:
            The job, with other code where a person wants it, or how it ends without having run; what to await for
            that where somebody has to be asked.
        """
        subject = of_block(job.block, self._gate.places)
        ruling = self._gate.judge(subject)
        if ruling.effect == "ask":
            return self._ask_about_block(job, subject)
        try:
            self._decided(subject, job.id, None, ruling, ruling.effect == "allow")
        except CodeactError as error:  # what cannot be audited does not happen
            return Outcome("rejected", f"It did not run: {error.message}")
        return job if ruling.effect == "allow" else _rejected(ruling, Answer(False))

    async def _ask_about_block(self, job: Job, subject: Subject) -> Job | Outcome:
        async def request(why: str) -> Request:
            return self._asked(
                Request(
                    "block",
                    self._agent,
                    job.id,
                    subject.name,
                    why,
                    job.block,
                    arguments=dict(subject.arguments),
                    always=standing(subject).words,
                )
            )

        began = self._wall()
        ruling, answer = await self._gate.ask(subject, request)
        block = job.block if answer.code is None else _with_text(job.block, answer.code)
        if answer.allowed and block != job.block:
            changed = of_block(block, self._gate.places)
            ruling, answer = self._once_more(changed, ruling, answer)
        text = answer.code if answer.allowed and block != job.block else None
        try:
            self._decided(subject, job.id, None, ruling, answer.allowed, answer.reason, text or "", began)
        except CodeactError as error:
            return Outcome("rejected", f"It did not run: {error.message}")
        return replace(job, block=block) if answer.allowed else _rejected(ruling, answer)

    def passes(self, name: str, classes: tuple[ToolClass, ...], arguments: Iterable[str]) -> bool:
        """Whether calls pass by the mode alone, whatever their arguments hold; said quickly, once one was judged.

        Args:
            name: The tool's full name.
            classes: What a call does.
            arguments: The names of its arguments.
        """
        return self._gate.lets_all(name, classes or UNKNOWN, arguments)

    # -- the second door ----------------------------------------------------------------------------------

    def call(self, call: Call) -> Passed | Awaitable[Passed]:
        """Decide about a call of a tool.

        Args:
            call: The call.

        Returns:
            How it may be made; what to await for that where somebody has to be asked.

        Raises:
            ToolError: If it may not be made.
        """
        subject = of_call(call, self._gate.places_of(call.folder))
        ruling = self._gate.judge(subject)
        if ruling.effect == "ask":
            return self._ask_about_call(call, subject)
        if ruling.effect == "allow" and ruling.by == "mode":
            # No event: what the mode lets pass is known from the mode, and a run may make millions of calls.
            return _PASSED if self._gate.is_plain(subject) else _passed(subject)
        self._decided(subject, call.block_id, call.call_id, ruling, ruling.effect == "allow")
        if ruling.effect == "deny":
            raise ToolError(_refusal(f"{call.name} was not called", ruling, Answer(False)))
        return _passed(subject)

    async def _ask_about_call(self, call: Call, subject: Subject) -> Passed:
        async def request(why: str) -> Request:
            return self._asked(
                Request(
                    "call",
                    self._agent,
                    call.block_id,
                    call.name,
                    why,
                    classes=subject.classes,
                    arguments=_copied(call.arguments),
                    preview="" if call.preview is None else await call.preview(),
                    always=standing(subject).words,
                )
            )

        began = self._wall()
        with self._standing_still(call.block_id):
            ruling, answer = await self._gate.ask(subject, request)
        changed = answer.arguments if answer.allowed else None
        if changed is not None:
            subject = of_call(call, self._gate.places_of(call.folder), changed)
            ruling, answer = self._once_more(subject, ruling, answer)
        text = "" if changed is None else json.dumps(dict(changed), ensure_ascii=False, default=repr)
        self._decided(
            subject, call.block_id, call.call_id, ruling, answer.allowed, answer.reason, text, began
        )
        if not answer.allowed:
            raise ToolError(_refusal(f"{call.name} was not called", ruling, answer))
        return replace(_passed(subject), arguments=None if changed is None else dict(changed))

    # -- what both have in common -------------------------------------------------------------------------

    def _once_more(self, subject: Subject, ruling: Ruling, answer: Answer) -> tuple[Ruling, Answer]:
        """What a person has changed may still be denied."""
        again = self._gate.judge(subject)
        return (again, Answer(False)) if again.effect == "deny" else (ruling, answer)

    def _asked(self, request: Request) -> Request:
        self._emit(ApprovalAsked(request.door, request.agent, request.block_id, request.name, request.why))
        return request

    def _decided(
        self,
        subject: Subject,
        block_id: str | None,
        call_id: str | None,
        ruling: Ruling,
        allowed: bool,
        reason: str = "",
        changed: str = "",
        began: float | None = None,
    ) -> None:
        now = self._wall()
        why = f"{ruling.why}: {reason}" if reason else ruling.why
        waited = 0.0 if began is None else max(0.0, now - began)
        door, name = subject.door, subject.name
        self._emit(
            Decided(door, self._agent, block_id, call_id, name, allowed, ruling.by, why, changed, waited, now)
        )


def _passed(subject: Subject) -> Passed:
    return Passed(places={path: real for path, real in subject.given_paths.items() if real is not None})


def _rejected(ruling: Ruling, answer: Answer) -> Outcome:
    return Outcome("rejected", _refusal("It did not run", ruling, answer))


def _refusal(what: str, ruling: Ruling, answer: Answer) -> str:
    """What the model reads of a refusal: what did not happen, who says so, and what it can do instead."""
    if ruling.by == "nobody":
        return (
            f"{what}: a person would have to approve it ({ruling.why}), and nobody is here to be asked. Do without it, "
            "or say in your answer what you would have done."
        )
    if ruling.by == "person":
        said = f": {answer.reason}" if answer.reason else ""
        return (
            f"{what}, because the person said no{said}. Ask for the same again only if something has changed."
        )
    reason = f" {ruling.reason}" if ruling.reason else ""
    return (
        f"{what}: {ruling.why}.{reason} Do it in a way that is allowed, or say in your answer that it is not."
    )


def _with_text(block: Block, text: str) -> Block:
    return replace(block, code=text) if isinstance(block, CodeBlock) else replace(block, task=text)


def _copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that whoever decides may do anything with: the call is made with others."""
    copied = {}
    for name, value in arguments.items():
        try:
            copied[name] = copy.deepcopy(value)
        except Exception:  # a class of anybody's
            copied[name] = repr(value)
    return copied

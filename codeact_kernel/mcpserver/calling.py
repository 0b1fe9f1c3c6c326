"""One call of a client's, and what its person is asked meanwhile.

Comes in: a checked call. Goes out: its answer; or, where a server may not ask by itself (the protocol from 2026-07-28
on), a question in its place, upon which the client calls again with what its person has said.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from codeact_kernel.mcpserver.answer import Answer
from codeact_kernel.mcpserver.asking import Question, Wants
from codeact_kernel.mcpserver.session import Session
from codeact_kernel.mcpserver.sessions import Sessions

Context = ServerRequestContext[Sessions, Any]

WAITS = ("run_code", "wait")
"""The calls that a question may go out with: the others do not wait for blocks to go on."""
_KEY = "approval"


def can_ask(context: Context) -> bool:
    """Whether a client can show a form to its person."""
    able = context.session.client_capabilities
    return (
        able is not None
        and able.elicitation is not None
        and (able.elicitation.form is not None or able.elicitation.url is None)
    )


async def answered(
    session: Session, context: Context, params: types.CallToolRequestParams, arguments: dict[str, Any]
) -> Answer | types.InputRequiredResult:
    """Answer a call.

    Args:
        session: The client's.
        context: The call's.
        params: The call as it came.
        arguments: Its arguments, checked.
    """

    async def progress(so_far: float, total: float, words: str) -> None:
        await context.session.report_progress(so_far, total, words or None)

    block = _come_again(session, params)
    if params.name == "run_code":
        wait = {"wait": arguments.pop("wait")} if "wait" in arguments else {}
        block = block or session.start(**arguments)
        call: Coroutine[Any, Any, Answer] = session.attend(progress, block, **wait)
    else:
        call = getattr(session, params.name)(progress, **arguments)
    if params.name not in WAITS or not can_ask(context):
        return await call
    wants: Wants = (lambda about: about == block) if params.name == "run_code" else session.is_left
    if context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        return await _asking_meanwhile(session, context, call, wants)
    return await _or_a_question(session, call, wants, block)


def _come_again(session: Session, params: types.CallToolRequestParams) -> str:
    """Take what a call brings that comes again; gives the block that it has started before."""
    with suppress(ValueError, TypeError, KeyError):
        state = json.loads(params.request_state or "null")
        said = (params.input_responses or {}).get(_KEY)
        if isinstance(said, types.ElicitResult):
            session.asking.fill(state["question"], said.action, said.content)
        return str(state["block"])
    return ""


async def _asking_meanwhile(
    session: Session, context: Context, call: Coroutine[Any, Any, Answer], wants: Wants
) -> Answer:
    async def ask() -> None:
        while True:
            question = await session.asking.carry(wants)
            try:
                said = await context.session.elicit_form(
                    question.form.message, question.form.schema, context.request_id
                )
                session.asking.fill(question.number, said.action, said.content)
            except MCPError as error:
                session.asking.fill(question.number, "cancel", {"reason": error.message})
            finally:
                session.asking.release(question)

    asking = asyncio.create_task(ask())
    try:
        return await call
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _or_a_question(
    session: Session, call: Coroutine[Any, Any, Answer], wants: Wants, block: str
) -> Answer | types.InputRequiredResult:
    answering, asking = asyncio.create_task(call), asyncio.create_task(session.asking.carry(wants))
    try:
        await asyncio.wait({answering, asking}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            if asking.done():
                session.asking.release(asking.result())
            return answering.result()
        session.asking.lend(asking.result())
        return _put(asking.result(), block)
    finally:
        # What a call has not told by then it tells when it comes again.
        for task in (answering, asking):
            task.cancel()
        await asyncio.gather(answering, asking, return_exceptions=True)


def _put(question: Question, block: str) -> types.InputRequiredResult:
    form = types.ElicitRequestFormParams(message=question.form.message, requested_schema=question.form.schema)
    return types.InputRequiredResult(
        input_requests={_KEY: types.ElicitRequest(params=form)},
        request_state=json.dumps({"question": question.number, "block": block}),
    )

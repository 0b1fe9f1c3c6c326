"""What is asked of a server, over one session.

Comes in: a session of the SDK, and names and arguments as the server knows them. Goes out: results of the protocol, and
listings with all their pages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import mcp.types as t
from mcp import ClientSession, MCPError
from mcp.client import ClientRequestContext

from codeact_kernel.errors import ToolError
from codeact_kernel.sizes import format_size
from codeact_kernel.tools.mcp.calls import Progress
from codeact_kernel.tools.mcp.listing import Listing
from codeact_kernel.tools.mcp.names import clean
from codeact_kernel.tools.mcp.results import described, prompt_value, resource_value

PAGES = 500
"""Pages of a listing that are read, and entries. Ours: ten times what the largest servers have."""
ENTRIES = 5_000
LISTED = 20_000_000
"""Characters of all tools of a server, as JSON."""
ROUNDS = 10
"""Times that a call may ask for input. The SDK's value."""
PAUSE = 0.25
"""Seconds before a call that has asked for patience is repeated. The SDK's value."""
_ABOUT = 4_000

_T = TypeVar("_T")
_Ask = Callable[[t.InputResponses | None, str | None], Awaitable[_T | t.InputRequiredResult]]


async def listing_of(session: ClientSession) -> Listing:
    """Hear what a server offers.

    Raises:
        ToolError: If its list has no end within reason.
        MCPError: If it says no.
    """
    capabilities = session.server_capabilities or t.ServerCapabilities()
    tools: dict[str, dict[str, Any]] = {}
    size = 0
    if capabilities.tools is not None:
        async for tool in _pages(lambda page: session.list_tools(params=page), "tools"):
            tools.setdefault(tool.name, _plain(tool))
            size += len(json.dumps(tools[tool.name]))
            if size > LISTED:
                raise ToolError(f"its list of tools is too long: more than {format_size(LISTED)}")
    info = session.server_info
    says = session.instructions or (info and (info.description or info.title)) or ""
    return Listing(
        tuple(tools.values()),
        resources=capabilities.resources is not None,
        prompts=capabilities.prompts is not None,
        about=clean(says, _ABOUT),
    )


async def call_tool(
    session: ClientSession, name: str, arguments: dict[str, Any], progress: Progress
) -> t.CallToolResult:
    """Call a tool.

    Args:
        session: The session.
        name: As the server knows it.
        arguments: As the server knows them.
        progress: Told of how far it is.

    Raises:
        ToolError: If it wants input that is not offered.
        MCPError: If the server says no.
    """
    return await _rounds(
        session,
        lambda answers, state: session.call_tool(
            name,
            arguments,
            progress_callback=progress,
            input_responses=answers,
            request_state=state,
            allow_input_required=True,
        ),
    )


async def read_resource(session: ClientSession, uri: str) -> Any:
    """The content of a resource; errors as in `call_tool`."""
    return resource_value(
        await _rounds(
            session,
            lambda answers, state: session.read_resource(
                uri, input_responses=answers, request_state=state, allow_input_required=True
            ),
        )
    )


async def get_prompt(session: ClientSession, name: str, arguments: dict[str, str]) -> list[dict[str, Any]]:
    """The messages of a prompt; errors as in `call_tool`."""
    return prompt_value(
        await _rounds(
            session,
            lambda answers, state: session.get_prompt(
                name, arguments, input_responses=answers, request_state=state, allow_input_required=True
            ),
        )
    )


async def list_resources(session: ClientSession) -> list[dict[str, Any]]:
    """The resources of a server, and the templates of more; errors as in `listing_of`."""
    keys = ("uri", "uriTemplate", "name", "title", "description", "mimeType", "size")
    resources = _pages(lambda page: session.list_resources(params=page), "resources")
    templates = _pages(lambda page: session.list_resource_templates(params=page), "resource_templates")
    found = [described(item, *keys) async for item in resources]
    try:
        found += [described(item, *keys) async for item in templates]
    except MCPError as error:
        # A server that has resources need not have templates.
        if error.code != t.METHOD_NOT_FOUND:
            raise
    return found


async def list_prompts(session: ClientSession) -> list[dict[str, Any]]:
    """The prompts of a server; errors as in `listing_of`."""
    found = _pages(lambda page: session.list_prompts(params=page), "prompts")
    return [described(item, "name", "title", "description", "arguments") async for item in found]


async def _pages(ask: Callable[[t.PaginatedRequestParams], Awaitable[Any]], field: str) -> AsyncIterator[Any]:
    cursor, seen, entries = None, set[str](), 0
    for _ in range(PAGES):
        page = await ask(t.PaginatedRequestParams(cursor=cursor))
        for entry in getattr(page, field):
            entries += 1
            yield entry
        cursor = page.next_cursor
        if cursor is None:
            return
        if cursor in seen or entries > ENTRIES:
            break
        seen.add(cursor)
    raise ToolError(f"its list of {field} has no end: {entries} entries were read")


async def _rounds(session: ClientSession, ask: _Ask[_T]) -> _T:
    """Ask until there is an answer: since 2026 a server says what it wants to know first, and is asked again."""
    answers: t.InputResponses | None = None
    state: str | None = None
    for _ in range(ROUNDS):
        result = await ask(answers, state)
        if not isinstance(result, t.InputRequiredResult):
            return result
        answers, state = None, result.request_state
        if result.input_requests:
            answers = {
                key: await _input(session, key, wanted) for key, wanted in result.input_requests.items()
            }
        else:
            await asyncio.sleep(PAUSE)
    raise ToolError(f"it has asked for input {ROUNDS} times, and was given up")


async def _input(session: ClientSession, key: str, request: t.InputRequest) -> t.InputResponse:
    context = ClientRequestContext(session=session, request_id=key)
    answer = await session.dispatch_input_request(context, request)
    if isinstance(answer, t.ErrorData):
        raise ToolError(f"it wants {request.method}, which is not offered")
    return answer


def _plain(tool: t.Tool) -> dict[str, Any]:
    """A tool as JSON has it. Not by the SDK: what is null in a schema has to stay."""
    hints = tool.annotations
    return {
        "name": tool.name,
        "title": tool.title or (hints.title if hints else None),
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "readOnly": hints.read_only_hint if hints else None,
        "destructive": hints.destructive_hint if hints else None,
        "openWorld": hints.open_world_hint if hints else None,
    }

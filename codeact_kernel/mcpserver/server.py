"""The MCP server: from calls as the protocol has them to a session, and back.

Comes in: requests, by the SDK's own server. Goes out: answers as text and images. What a client's model does wrong is
an answer that says so, never a broken connection.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ConfigDict, TypeAdapter, ValidationError, create_model

from codeact_kernel._version import __version__
from codeact_kernel.errors import CodeactError, ToolError
from codeact_kernel.mcpserver.answer import Answer
from codeact_kernel.mcpserver.calling import Context, answered, can_ask
from codeact_kernel.mcpserver.description import INSTRUCTIONS, TOOLS
from codeact_kernel.mcpserver.session import Session
from codeact_kernel.mcpserver.sessions import Sessions

NAME = "codeact"
BLOCKS = "codeact-kernel/blocks"
"""Under this key of an answer's `_meta` a program finds of which blocks it tells."""
SESSION_HEADER = "mcp-session-id"
_ONE = "the only client"


def make_server(sessions: Sessions, *, http: bool = False) -> Server[Sessions]:
    """Make the server.

    Args:
        sessions: Have the namespaces.
        http: Whether clients come over HTTP, each with a session of the protocol's. Else there is one client.
    """

    @asynccontextmanager
    async def lifespan(_: Server[Sessions]) -> AsyncIterator[Sessions]:
        yield sessions

    server = Server(
        NAME,
        version=__version__,
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )
    if http:
        server.add_request_handler("server/discover", types.RequestParams, _discover)
    return server


async def _list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=description, input_schema=schema)
            for name, (description, schema) in TOOLS.items()
        ]
    )


async def _discover(_: Context, __: types.RequestParams) -> types.DiscoverResult:
    """Say over HTTP that we speak the versions that have sessions: a namespace needs one."""
    return types.DiscoverResult(
        supported_versions=list(HANDSHAKE_PROTOCOL_VERSIONS),
        capabilities=types.ServerCapabilities(tools=types.ToolsCapability()),
        instructions=INSTRUCTIONS,
    )


async def _call_tool(
    context: Context, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    client = context.session.client_params
    name = f"{client.client_info.name} {client.client_info.version}".strip() if client else ""
    key = _key(context)
    try:
        arguments = _checked(params.name, params.arguments or {})
        session = await context.lifespan_context.get(key, name, can_ask(context))
        answer = await answered(session, context, params, arguments)
    except CodeactError as error:
        answer = Answer(error.message, failed=True)
    if isinstance(answer, types.InputRequiredResult):
        return answer
    images = [types.ImageContent(data=picture.data, mime_type=picture.mime) for picture in answer.pictures]
    return types.CallToolResult(
        content=[types.TextContent(text=answer.text), *images],
        is_error=answer.failed,
        _meta={BLOCKS: list(answer.blocks)} if answer.blocks else None,
    )


def _key(context: Context) -> str:
    """Whose session a call means: over HTTP the header says it."""
    if context.request is None:
        return _ONE
    key = context.request.headers.get(SESSION_HEADER)
    if key is None:
        raise MCPError(
            code=types.UNSUPPORTED_PROTOCOL_VERSION,
            message="a namespace needs a session: begin with `initialize`",
            data={"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": context.protocol_version},
        )
    return str(key)


def _arguments(name: str) -> TypeAdapter[Any]:
    """What checks the arguments of a tool: the hints of the session's method of that name."""
    method = getattr(Session, name)
    hints = inspect.get_annotations(method, eval_str=True)
    parameters = list(inspect.signature(method).parameters.values())[2:]
    fields: dict[str, Any] = {
        p.name: (hints[p.name], ... if p.default is p.empty else p.default) for p in parameters
    }
    model = create_model(name, __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)
    return TypeAdapter(model)


_CHECKS = {name: _arguments(name) for name in TOOLS}


def _checked(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Check a call's arguments.

    Raises:
        ToolError: If one is wrong; names it.
    """
    check = _CHECKS.get(name)
    if check is None:
        raise ToolError(f"there is no tool {name!r}; there are {', '.join(TOOLS)}")
    # A client that fills in what was left out may send null for it.
    given = {key: value for key, value in arguments.items() if value is not None}
    try:
        return dict(check.validate_python(given))
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, e['loc']))}: {e['msg'].lower()}" for e in error.errors()]
        raise ToolError(f"{name}: {'; '.join(wrong)}") from None

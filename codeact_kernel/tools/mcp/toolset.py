"""A server's tools, as a toolset that blocks call.

Comes in: a server. Goes out: a `Tool` for each of its own, and for its resources and prompts.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codeact_kernel.approval import ToolClass
from codeact_kernel.errors import ToolError
from codeact_kernel.tools.mcp.listing import Listing
from codeact_kernel.tools.mcp.names import identifier, one_line
from codeact_kernel.tools.mcp.schema import ALL_STEPS, Budget
from codeact_kernel.tools.mcp.server import McpServer
from codeact_kernel.tools.mcp.stubs import Contract, contract
from codeact_kernel.tools.tool import Tool

if TYPE_CHECKING:
    from codeact_kernel.tools.mcp.session import Connection

ABOUT = 160
"""Characters of what a server says of itself in the prompt."""
_Function = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _Helper:
    """A tool of ours that a server with a capability has besides its own."""

    name: str
    capability: str
    signature: str
    doc: str


_HELPERS = (
    _Helper(
        "resources",
        "resources",
        "() -> list[dict]",
        "List the server's resources.\n\nEach is a dict of uri, name and what else is known; one with uriTemplate "
        "stands for all whose uri it describes.",
    ),
    _Helper(
        "read_resource",
        "resources",
        "(uri: str) -> Any",
        "Read a resource: text, bytes or a picture.\n\nArgs:\n    uri: As resources() or a result names it.",
    ),
    _Helper(
        "prompts",
        "prompts",
        "() -> list[dict]",
        "List the server's prompts.\n\nEach is a dict of name, description, and arguments with their names.",
    ),
    _Helper(
        "get_prompt",
        "prompts",
        "(name: str, /, **arguments: str) -> list[dict]",
        "Get a prompt: its messages, dicts of role and content.\n\nArgs:\n    name: As prompts() names it.\n"
        "    arguments: Its arguments, as text.",
    ),
)


class McpToolset:
    """The tools of one server.

    Args:
        server: The server.
    """

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._read: tuple[Listing, dict[str, Tool]] | None = None

    @property
    def name(self) -> str:
        """The dotted group, as code writes it: "mcp.github"."""
        return self._server.group

    @property
    def about(self) -> str:
        """What the server says of itself, in a line; empty before it was ever started."""
        listing = self._server.listing
        return "" if listing is None else one_line(listing.about.lstrip("# ").partition("\n")[0], ABOUT)

    def known(self) -> Mapping[str, Tool] | None:
        """The tools by name, as far as known without starting anything; None where nothing is."""
        return None if self._server.listing is None else self._of(self._server.listing)

    async def tools(self) -> Mapping[str, Tool]:
        """The tools by name.

        Raises:
            ToolError: If the server does not start; with the end of its stderr.
        """
        return self._of(await self._server.start())

    async def aclose(self) -> None:
        """End the server."""
        await self._server.aclose()

    def _of(self, listing: Listing) -> dict[str, Tool]:
        if self._read is None or self._read[0] is not listing:
            self._read = (listing, self._make(listing))
        return self._read[1]

    def _make(self, listing: Listing) -> dict[str, Tool]:
        made: dict[str, Tool] = {}
        budget = Budget(ALL_STEPS)
        for said in listing.tools:
            name = identifier(said["name"], made)
            what = contract(name, said, budget)
            made[name] = self._tool(
                name,
                self._caller(name, said["name"], what),
                what.signature,
                what.doc,
                what.stub,
                _classes(said),
            )
        for helper in _HELPERS:
            if getattr(listing, helper.capability):
                name = identifier(helper.name if helper.name not in made else f"mcp_{helper.name}", made)
                function = getattr(self, f"_{helper.name}")
                made[name] = self._tool(name, function, helper.signature, helper.doc, "", ("read", "network"))
        return made

    def _tool(
        self,
        name: str,
        function: _Function,
        signature: str,
        doc: str,
        stub: str,
        classes: tuple[ToolClass, ...],
    ) -> Tool:
        return Tool(
            name,
            function,
            signature,
            doc,
            is_async=False,
            group=self.name,
            full_name=f"{self.name}.{name}".replace(".", ":"),
            stub=stub,
            classes=classes,
        )

    def _caller(self, name: str, wire: str, what: Contract) -> _Function:
        label = f"{self.name}.{name}"

        async def function(**given: Any) -> Any:
            arguments = _arguments(label, what, given)

            async def ask(connection: Connection) -> Any:
                # Here, and not above: the SDK is loaded with the first server.
                from codeact_kernel.tools.mcp.requests import call_tool
                from codeact_kernel.tools.mcp.results import error_text, tool_value

                _check(wire, connection.listing)
                result = await call_tool(connection.session, wire, arguments, self._server.progress())
                if result.is_error:
                    raise ToolError(error_text(result))
                return tool_value(result, what.wrapped)

            return await self._server.call(label, ask)

        return function

    async def _resources(self) -> Any:
        return await self._ask("resources", "list_resources")

    async def _read_resource(self, uri: str) -> Any:
        return await self._ask("read_resource", "read_resource", uri)

    async def _prompts(self) -> Any:
        return await self._ask("prompts", "list_prompts")

    async def _get_prompt(self, name: str, /, **arguments: Any) -> Any:
        given = {
            key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()
        }
        return await self._ask("get_prompt", "get_prompt", name, given)

    async def _ask(self, name: str, request: str, *args: Any) -> Any:
        """Make one of the requests."""

        async def ask(connection: Connection) -> Any:
            from codeact_kernel.tools.mcp import requests

            return await getattr(requests, request)(connection.session, *args)

        return await self._server.call(f"{self.name}.{name}", ask)


def _classes(said: Mapping[str, Any]) -> tuple[ToolClass, ...]:
    """What a tool does, by the server's own word: what says nothing changes something, and talks to others."""
    first: ToolClass = "read" if said.get("readOnly") is True else "write"
    more: tuple[ToolClass, ...] = (
        ("destructive",) if said.get("destructive") is True and first == "write" else ()
    )
    return (first, *more) if said.get("openWorld") is False else (first, *more, "network")


def _arguments(label: str, what: Contract, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call as the server knows them."""
    by_name = {parameter.name: parameter for parameter in what.parameters}
    unknown = [name for name in given if name not in by_name]
    if unknown and not what.open:
        near = difflib.get_close_matches(unknown[0], by_name, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(by_name) or 'none'}"
        raise ToolError(f"{label} has no parameter {unknown[0]!r}{hint}")
    # An ellipsis is how a signature shows that the server has a default of its own.
    passed = {name: value for name, value in given.items() if value is not ...}
    lacking = [name for name, parameter in by_name.items() if parameter.required and name not in passed]
    if lacking:
        raise ToolError(f"{label} needs {', '.join(lacking)}")
    arguments = {by_name[name].wire if name in by_name else name: value for name, value in passed.items()}
    try:
        json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ToolError(f"{label} takes plain data only, as JSON has it: {error}") from None
    return arguments


def _check(wire: str, listing: Listing) -> None:
    """Refuse to call what the server no longer has; what was known of it may be from an earlier run."""
    names = [said["name"] for said in listing.tools]
    if wire not in names:
        near = difflib.get_close_matches(wire, names, 3)
        raise ToolError(
            f"the server does not have this tool any more{'; it has ' + ', '.join(near) if near else ''}"
        )

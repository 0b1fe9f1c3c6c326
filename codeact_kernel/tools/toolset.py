"""Sets of tools that come from elsewhere, and may not be there yet.

Goes out: `Toolset`, what the catalogue asks of one: an MCP server is such a set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from codeact_kernel.tools.tool import Tool


@runtime_checkable
class Toolset(Protocol):
    """A set of tools under one name."""

    @property
    def name(self) -> str:
        """The group of its tools, as code writes it: "mcp.github"."""

    @property
    def about(self) -> str:
        """A line that says what it is for; empty where that is not known."""

    def known(self) -> Mapping[str, Tool] | None:
        """Its tools by name, as far as that is known without starting anything; None where it is not."""

    async def tools(self) -> Mapping[str, Tool]:
        """Its tools by name; starts what has to be started.

        Raises:
            ToolError: If it cannot be started; says why.
        """

    async def aclose(self) -> None:
        """End it; may be called twice."""

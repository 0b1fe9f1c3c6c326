"""Tools of MCP servers, as toolsets.

Comes in: the `mcpServers` JSON that other programs read, too. Goes out: a `Toolset` for each server, which starts it
when one of its tools is first needed. The SDK is loaded with the first server, and only here.
"""

from __future__ import annotations

from codeact_kernel.tools.mcp.calls import Elicit, Elicitation
from codeact_kernel.tools.mcp.open import open_servers
from codeact_kernel.tools.mcp.toolset import McpToolset

__all__ = ["Elicit", "Elicitation", "McpToolset", "open_servers"]

"""Our kernel as a tool for other agents: an MCP server.

Comes in: calls of an MCP client. Goes out: what its blocks print and display, in the words that our own agent's model
reads. One of two rooms that import mcp; the only one that imports starlette and uvicorn.
"""

from __future__ import annotations

from codeact_kernel.mcpserver.http import HttpServer, read_address
from codeact_kernel.mcpserver.opening import open_session
from codeact_kernel.mcpserver.server import make_server
from codeact_kernel.mcpserver.sessions import Sessions
from codeact_kernel.mcpserver.stdio import serve_stdio

__all__ = ["HttpServer", "Sessions", "make_server", "open_session", "read_address", "serve_stdio"]

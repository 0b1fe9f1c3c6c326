"""Tools: functions of the host that blocks call as plain names.

Comes in: functions; calls over the bridge. Goes out: descriptions for the kernel and the prompt; results.
"""

from __future__ import annotations

from codeact_kernel.tools.load import load_tools
from codeact_kernel.tools.serve import ToolServer, ToolUse
from codeact_kernel.tools.tool import Tool, as_tool, as_tools

__all__ = ["Tool", "ToolServer", "ToolUse", "as_tool", "as_tools", "load_tools"]

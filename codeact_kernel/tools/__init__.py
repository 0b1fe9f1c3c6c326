"""Tools: functions of the host that blocks call as plain names.

Comes in: functions; calls over the bridge. Goes out: descriptions for the kernel and the prompt; results.
"""

from __future__ import annotations

from codeact_kernel.tools.builtin import workspace_tools
from codeact_kernel.tools.builtin.workspace import Workspace
from codeact_kernel.tools.catalogue import Catalogue
from codeact_kernel.tools.kept import kept_arguments
from codeact_kernel.tools.load import load_tools
from codeact_kernel.tools.quota import CallCount, CallLimits, Quota
from codeact_kernel.tools.serve import Caller, ToolServer, ToolUse, caller, calling, notify
from codeact_kernel.tools.tool import Tool, as_tool, as_tools, tool
from codeact_kernel.tools.toolset import Toolset
from codeact_kernel.tools.vision import UNSET, Vision, lacking

__all__ = [
    "UNSET",
    "CallCount",
    "CallLimits",
    "Caller",
    "Catalogue",
    "Quota",
    "Tool",
    "ToolServer",
    "ToolUse",
    "Toolset",
    "Vision",
    "Workspace",
    "as_tool",
    "as_tools",
    "caller",
    "calling",
    "kept_arguments",
    "lacking",
    "load_tools",
    "notify",
    "tool",
    "workspace_tools",
]

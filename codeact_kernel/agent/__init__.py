"""The agent: the hall, the only room that knows all stations.

Comes in: tasks. Goes out: runs.
"""

from __future__ import annotations

from codeact_kernel.agent.agent import Agent
from codeact_kernel.agent.assembly import plan, write_prompt
from codeact_kernel.agent.config import PROTOCOLS, Settings, load_settings
from codeact_kernel.agent.hooks import Hooks, Refused
from codeact_kernel.agent.options import Options
from codeact_kernel.agent.run import Run

__all__ = [
    "PROTOCOLS",
    "Agent",
    "Hooks",
    "Options",
    "Refused",
    "Run",
    "Settings",
    "load_settings",
    "plan",
    "write_prompt",
]

"""The agent: the hall, the only room that knows all stations.

Comes in: tasks. Goes out: runs.
"""

from __future__ import annotations

from codeact_kernel.agent.agent import Agent
from codeact_kernel.agent.assembly import wanted_kernel
from codeact_kernel.agent.bookkeeping import Bookkeeping
from codeact_kernel.agent.config import PROTOCOLS, Settings, load_settings
from codeact_kernel.agent.gating import make_gate
from codeact_kernel.agent.hooks import HookChain, Hooks, Refused
from codeact_kernel.agent.housing import house
from codeact_kernel.agent.inbox import SETTLE
from codeact_kernel.agent.notebook import approve_in_notebook, told_in_notebook
from codeact_kernel.agent.options import Options
from codeact_kernel.agent.past import Past, UntrustedRecord, open_past
from codeact_kernel.agent.planning import Plan, plan
from codeact_kernel.agent.prompting import write_prompt
from codeact_kernel.agent.recorded import (
    Compared,
    RecordedRun,
    Sample,
    answering_tools,
    compare,
    divergence,
    execute,
    fork,
    moments,
    samples,
    script,
)
from codeact_kernel.agent.recording import AUDIT, JOURNAL, NOTEBOOK, OUTPUTS
from codeact_kernel.agent.run import Run
from codeact_kernel.agent.rundir import make_run_dir
from codeact_kernel.agent.runs import (
    KnownRun,
    known_runs,
    leftovers,
    old_runs,
    remove_leftover,
    remove_run,
    runs_in,
)
from codeact_kernel.agent.serving import answering, block_methods, make_server
from codeact_kernel.agent.trust import UntrustedWorkspace, remember
from codeact_kernel.agent.watching import WatchedAgent, WatchedRun, find_run

__all__ = [
    "AUDIT",
    "JOURNAL",
    "NOTEBOOK",
    "OUTPUTS",
    "PROTOCOLS",
    "SETTLE",
    "Agent",
    "Bookkeeping",
    "Compared",
    "HookChain",
    "Hooks",
    "KnownRun",
    "Options",
    "Past",
    "Plan",
    "RecordedRun",
    "Refused",
    "Run",
    "Sample",
    "Settings",
    "UntrustedRecord",
    "UntrustedWorkspace",
    "WatchedAgent",
    "WatchedRun",
    "answering",
    "answering_tools",
    "approve_in_notebook",
    "block_methods",
    "compare",
    "divergence",
    "execute",
    "find_run",
    "fork",
    "house",
    "known_runs",
    "leftovers",
    "load_settings",
    "make_gate",
    "make_run_dir",
    "make_server",
    "moments",
    "old_runs",
    "open_past",
    "plan",
    "remember",
    "remove_leftover",
    "remove_run",
    "runs_in",
    "samples",
    "script",
    "told_in_notebook",
    "wanted_kernel",
    "write_prompt",
]

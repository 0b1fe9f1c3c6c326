"""The supervisor: starts, watches and cancels blocks.

Comes in: jobs, runners, wishes to cancel. Goes out: events, results, full outputs, a picture of what is
alive.
"""

from __future__ import annotations

from codeact_kernel.supervisor.live import LiveBlock
from codeact_kernel.supervisor.supervisor import Supervisor, SupervisorSettings
from codeact_kernel.supervisor.tape import Tape

__all__ = ["LiveBlock", "Supervisor", "SupervisorSettings", "Tape"]

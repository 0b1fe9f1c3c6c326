"""What is done with recorded runs: they are read, shown, executed again, compared, and made into other things.

Comes in: records. Goes out: recorded runs; their comparison; agents that replay them; samples and programs.
"""

from __future__ import annotations

from codeact_kernel.agent.recorded.comparing import Compared, compare, divergence
from codeact_kernel.agent.recorded.replaying import answering_tools, execute, fork, moments
from codeact_kernel.agent.recorded.run import RecordedRun, events_of
from codeact_kernel.agent.recorded.scripting import script
from codeact_kernel.agent.recorded.training import Sample, samples

__all__ = [
    "Compared",
    "RecordedRun",
    "Sample",
    "answering_tools",
    "compare",
    "divergence",
    "events_of",
    "execute",
    "fork",
    "moments",
    "samples",
    "script",
]

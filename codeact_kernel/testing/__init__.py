"""What tests of the product need, as a part of the product.

Comes in: scripts. Goes out: `ScriptedModel` and `Cast` for models, `FakeRunner` for a kernel, and a clock that jumps:
a run of hours is tested in milliseconds, with no endpoint and no process.
"""

from __future__ import annotations

from codeact_kernel.testing.cast import Cast
from codeact_kernel.testing.clock import EPOCH, JumpingLoop, jumping, run_jumping, wall
from codeact_kernel.testing.endpoint import EndpointReply, ScriptedEndpoint
from codeact_kernel.testing.model import Scripted, ScriptedModel, ScriptedReply
from codeact_kernel.testing.runner import FakeRunner

__all__ = [
    "EPOCH",
    "Cast",
    "EndpointReply",
    "FakeRunner",
    "JumpingLoop",
    "Scripted",
    "ScriptedEndpoint",
    "ScriptedModel",
    "ScriptedReply",
    "jumping",
    "run_jumping",
    "wall",
]

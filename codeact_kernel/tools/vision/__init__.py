"""`ask_vision`: a tool by which blocks ask a model that sees about images.

Comes in: a question and what files hold. Goes out: an answer in text; the images never get into the agent's context.
"""

from __future__ import annotations

from codeact_kernel.tools.vision.asking import UNSET, Vision, lacking

__all__ = ["UNSET", "Vision", "lacking"]

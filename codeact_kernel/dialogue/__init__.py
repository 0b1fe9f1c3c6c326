"""The text that is exchanged with the model: one grammar, one room.

Comes in: replies as they stream, results, notes. Goes out: parts, faults, reports, messages and the prompt.
`codec` gives one of three ways of carrying the same blocks; the rest is the same for all.
"""

from __future__ import annotations

from codeact_kernel.dialogue.bundles import bundle_text
from codeact_kernel.dialogue.codec import TagCodec
from codeact_kernel.dialogue.format import format_parts
from codeact_kernel.dialogue.frames import Framer
from codeact_kernel.dialogue.jsontext import JsonCodec
from codeact_kernel.dialogue.observation import (
    fault_report,
    held_report,
    in_the_end,
    note_report,
    observation,
    reminder_report,
    result_report,
    running_report,
)
from codeact_kernel.dialogue.prompt import FunctionLine, Surroundings, system_prompt
from codeact_kernel.dialogue.shorten import shorten
from codeact_kernel.dialogue.tags import TagReader
from codeact_kernel.dialogue.tools import ToolCodec
from codeact_kernel.errors import ConfigError
from codeact_kernel.protocols import Codec

__all__ = [
    "Framer",
    "FunctionLine",
    "JsonCodec",
    "Surroundings",
    "TagCodec",
    "TagReader",
    "ToolCodec",
    "bundle_text",
    "codec",
    "fault_report",
    "format_parts",
    "held_report",
    "in_the_end",
    "note_report",
    "observation",
    "reminder_report",
    "result_report",
    "running_report",
    "shorten",
    "system_prompt",
]


def codec(name: str, *, agents: bool = False, examples: bool = False, secret: bytes | None = None) -> Codec:
    """Choose how blocks travel.

    Args:
        name: "tags", "tools" or "json".
        agents: Whether sub-agents are offered to the endpoint's tool calling.
        examples: Whether the context begins with two example turns, for a small model.
        secret: The key of the boundaries round output that imitates tags; None takes a random one. A resumed
            run that gives its old key writes its old messages again, character by character.

    Raises:
        ConfigError: If there is no such codec.
    """
    match name:
        case "tags":
            return TagCodec(secret, examples=examples)
        case "tools":
            return ToolCodec(secret, examples=examples, agents=agents)
        case "json":
            return JsonCodec(secret, examples=examples)
    raise ConfigError(f"There is no protocol {name!r}: choose tags, tools or json.")

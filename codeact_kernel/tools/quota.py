"""How many calls of tools code may make.

Comes in: limits, and each call before it is made. Goes out: an error for a call past a limit, which the model reads.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from codeact_kernel.errors import ToolError

_BLOCKS = 1000
"""Blocks whose calls are counted at once; more than are alive."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits; None for none. Calls of `self` are no calls of tools."""

    block: int | None = None
    """Of one block."""
    agent: int | None = None
    """Of one agent's blocks together, and of what they left running."""
    run: int | None = None
    """Of a run: of all its agents together."""
    tools: Mapping[str, int] = field(default_factory=dict)
    """Of single tools in a run, by full name, or by group for all tools of it together."""


class CallCount:
    """What the agents of one run have called."""

    def __init__(self) -> None:
        self.all = 0
        self.of_tools: Counter[str] = Counter()


class Quota:
    """The quota of one agent.

    Args:
        limits: The limits.
        count: What all agents of the run have called.
    """

    def __init__(self, limits: CallLimits, count: CallCount | None = None) -> None:
        self._limits = limits
        self._run = count or CallCount()
        self._mine = 0
        self._blocks: OrderedDict[str, int] = OrderedDict()

    def take(self, name: str, group: str, limit: int | None, block: str | None, block_id: str | None) -> None:
        """Count a call that is to be made.

        Args:
            name: The tool's full name.
            group: Its group; empty for none.
            limit: The tool's own limit.
            block: What tells the block whose code calls from others; None where it is unknown.
            block_id: The block's id.

        Raises:
            ToolError: If it is one too many. It is not counted then.
        """
        of_block = self._blocks.get(block, 0) if block is not None else 0
        limits, of_tools = self._limits, self._run.of_tools
        own = limits.tools.get(name, limit)
        _check(limits.block if block is not None else None, of_block, f"of block {block_id}")
        _check(limits.agent, self._mine, "of this agent")
        _check(limits.run, self._run.all, "of the run")
        _check(own, of_tools[name], f"of {name} in the run")
        _check(limits.tools.get(group) if group else None, of_tools[group], f"of {group} in the run")
        self._mine += 1
        self._run.all += 1
        of_tools.update({name, group} - {""})
        if block is not None:
            self._blocks[block] = of_block + 1
            self._blocks.move_to_end(block)
            if len(self._blocks) > _BLOCKS:
                self._blocks.popitem(last=False)


def _check(limit: int | None, made: int, whose: str) -> None:
    if limit is not None and made >= limit:
        raise ToolError(
            f"this call was not made: the {limit:,} tool calls {whose} that are allowed have been made; do with what "
            "you have, or say in your answer what is missing"
        )

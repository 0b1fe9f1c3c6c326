"""What the code in a kernel may do, as far as another kernel has to know it.

Comes in: nothing. Goes out: `Allowance`. Who was allowed no less than the reader gains nothing by what it hands over;
from everybody else a kernel takes data and no code.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

ANY_HOST = "*"
"""All of the network."""
SANDBOXES = ("none", "limits", "landlock", "bwrap")
"""From the weakest to the strongest."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the code in one kernel may do."""

    sandbox: str = "none"
    """The mode that it is in, one of `SANDBOXES`."""
    uid: int | None = None
    """The user it runs as; None for the host's own."""
    workspace: str = ""
    """The folder that it may write."""
    network: frozenset[str] = frozenset((ANY_HOST,))
    """The hosts that it reaches."""
    tools: frozenset[str] = frozenset()
    """The tools, and the sets of tools, that it may call, by name."""
    approvals: str = "auto"
    """How its blocks and calls are decided on; "auto" lets all of them through."""

    def lacks(self, other: Allowance) -> tuple[str, ...]:
        """What one of the other allowance may do, and one of this may not.

        Args:
            other: The other.

        Returns:
            Each as words that follow "it lacks"; none where this one was allowed no less.
        """
        lacking = []
        if self.sandbox != other.sandbox and not weaker(self.sandbox, other.sandbox):
            lacking.append(f"a sandbox as wide ({other.sandbox})")
        if self.uid != other.uid:
            lacking.append("the same user")
        if self.workspace != other.workspace and not _is_within(other.workspace, self.workspace):
            lacking.append(f"the workspace {other.workspace}")
        if ANY_HOST not in self.network and (hosts := other.network - self.network):
            lacking.append("all of the network" if ANY_HOST in hosts else f"the network: {_listed(hosts)}")
        if tools := other.tools - self.tools:
            lacking.append(f"the tool{'s'[: len(tools) > 1]} {_listed(tools)}")
        if self.approvals not in (other.approvals, "auto"):
            lacking.append(f"the approvals ({other.approvals})")
        return tuple(lacking)


def weaker(mode: str, other: str) -> bool:
    """Whether a sandbox is weaker than another one. Of what is no sandbox nothing is known."""
    known = mode in SANDBOXES and other in SANDBOXES
    return known and SANDBOXES.index(mode) < SANDBOXES.index(other)


def _is_within(folder: str, of: str) -> bool:
    return bool(folder and of) and PurePath(folder).is_relative_to(of)


def _listed(names: frozenset[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")

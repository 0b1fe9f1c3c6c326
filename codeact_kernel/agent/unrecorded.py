"""What an audit knows of a run's last moments, and its journal does not.

Comes in: `audit.jsonl`, what the journal told. Goes out: tool calls that were under way, and blocks that were started
unseen. The audit has each of these on the disk before it happens; what the journal has of them may be lost with the
machine, or on a full disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from codeact_kernel.agent.kin import ROOT
from codeact_kernel.agent.remains import Remains
from codeact_kernel.events import ToolCalled
from codeact_kernel.policy import sealed
from codeact_kernel.runfiles import open_plain
from codeact_kernel.signing import Signer
from codeact_kernel.transcript import Transcript

_CODE = 1000
"""Characters of a block that are told."""
_BEGINNINGS = ("AuditBegun", "AuditContinued")


def learn_of_audit(audit: Path, signer: Signer, transcript: Transcript, remains: Remains) -> None:
    """Add to what is left open of a run what only its audit has.

    Args:
        audit: The audit; one that cannot be read tells nothing.
        signer: Has signed it. Lines that somebody else wrote tell nothing.
        transcript: What the journal told.
        remains: What is left open; gets the calls and the blocks.
    """
    calls, blocks = _last_process(audit, signer)
    for call_id, about in calls.items():
        called = ToolCalled(call_id, about["name"], about["block_id"], about["arguments"], about["digest"])
        remains.calls.setdefault(call_id, called)
    for id_, about in blocks.items():
        if id_ not in transcript.blocks:
            block = about["block"]
            remains.unseen[id_] = str(block.get("code", block.get("task", "")))[:_CODE]


def _last_process(audit: Path, signer: Signer) -> tuple[dict[str, Any], dict[str, Any]]:
    """The calls that did not return and the blocks of the root, of the process that wrote last."""
    calls: dict[str, Any] = {}
    blocks: dict[str, Any] = {}
    try:
        with open_plain(audit) as file:
            for raw in file:
                about = sealed(raw.rstrip(b"\n"), signer)
                if about is None:
                    continue
                event = about["event"]
                if event in _BEGINNINGS:
                    calls, blocks = {}, {}
                elif about.get("agent") != ROOT:
                    continue
                elif event == "BlockQueued":
                    blocks[about["id"]] = about
                elif event == "ToolCalled":
                    calls[about["call_id"]] = about
                elif event == "ToolReturned":
                    calls.pop(about["call_id"], None)
    except OSError:
        return {}, {}
    return calls, blocks

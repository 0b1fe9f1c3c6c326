"""The ends of blocks that nobody saw end.

Comes in: a block's record, what is left open of its run. Goes out: its result, which says what is known and what is
not: whether a call of a tool has happened, say.
"""

from __future__ import annotations

from pathlib import Path

from codeact_kernel.agent.recording import JOURNAL, NOTEBOOK
from codeact_kernel.agent.remains import Remains
from codeact_kernel.blocks import AgentBlock, BlockResult, Outcome
from codeact_kernel.errors import RecordError
from codeact_kernel.events import ToolCalled
from codeact_kernel.messages import Usage
from codeact_kernel.record import AGENTS, read_journal, slug
from codeact_kernel.transcript import BlockRecord, Transcript

_ARGUMENTS = 300
"""Characters of a call's arguments that are told; the audit has more."""
_SAID = 500
"""Characters of a sub-agent's last reply that are told; its record has all of it."""


def end_of(record: BlockRecord, remains: Remains, folder: Path, *, kernel_lives: bool = False) -> BlockResult:
    """The end of a block whose process ended before it did.

    Args:
        record: The block.
        remains: What is left open of its run.
        folder: The run's.
        kernel_lives: Whether its kernel has outlived the process, and knows nothing of it.
    """
    usage = Usage()
    if isinstance(record.block, AgentBlock):
        error, usage = _agent(record, folder)
    elif record.started is None and kernel_lives:
        error = "The process that it waited in ended before it came to the kernel: none of it ran."
    elif record.started is None:
        error = (
            "The process that it waited in ended. Nothing was heard of its start: most likely none of it ran."
        )
    else:
        error = (
            "The process that it ran in ended, and the block with it: how far it came is unknown. What is known of its "
            "output stands here."
        )
    calls = [call for call in remains.calls.values() if call.block_id == record.id]
    error += "".join(f"\n{unknown(call)}" for call in calls)
    return BlockResult(
        record.id,
        record.block,
        Outcome("died", error=error, lane=record.lane, usage=usage),
        tuple(record.outputs.outputs(record.file)),
        record.queued,
        record.started,
        max(remains.last, record.started or record.queued),
    )


def unknown(call: ToolCalled) -> str:
    """What is told of a call that was under way when its process ended.

    Args:
        call: The call.
    """
    return f"It is unknown whether this call happened: {call.name}({_short(call.arguments, _ARGUMENTS)})"


def _agent(record: BlockRecord, folder: Path) -> tuple[str, Usage]:
    """What a sub-agent's own record tells of it, and what it had used."""
    place = Path(AGENTS) / slug(record.id)
    transcript = Transcript()
    try:
        read_journal(folder / place / JOURNAL, transcript.apply, None)
    except RecordError:
        return "The process that it lived in ended. Nothing is known of what it did.", Usage()
    turns = [turn for run in transcript.runs for turn in run.turns]
    replies = [turn.reply for turn in turns if turn.reply is not None]
    error = (
        f"The process that it lived in ended, and the sub-agent with it, in turn {len(turns)}. Its record is "
        f"{place / NOTEBOOK}, in the run's folder. Start another one if its work is still wanted."
    )
    if replies:
        error += f"\nIts last reply: {_short(replies[-1].text, _SAID)}"
    return error, transcript.usage


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"

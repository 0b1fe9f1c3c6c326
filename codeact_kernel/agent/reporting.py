"""What has landed, as the model reads it.

Comes in: items of the inbox. Goes out: a `Report` for each, within the bounds of the context.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from codeact_kernel.agent.context import Context
from codeact_kernel.agent.hooks import HookChain
from codeact_kernel.agent.inbox import Item, Note
from codeact_kernel.blocks import BlockResult, StreamOutput
from codeact_kernel.dialogue import held_report, note_report, result_report, running_report
from codeact_kernel.events import BlockHeld, Heartbeat, Report
from codeact_kernel.supervisor import Supervisor


class Reporter:
    """Writes reports.

    Args:
        supervisor: Knows what runs.
        context: Knows how much room there is.
        hooks: The caller's own code, which may change results.
        remarks: By settled id, what was wrong with a block that ran all the same; each is told once.
        result_tokens: The most that the model reads of one result.
        handles: Whether blocks can ask for whole outputs (`self` exists in our own kernel only).
        handle_of_note: Gives code by which a block has a note whole.
        wall: The time in seconds since the epoch.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        context: Context,
        hooks: HookChain,
        remarks: dict[str, str],
        *,
        result_tokens: int,
        handles: bool = True,
        handle_of_note: Callable[[str], str | None] = lambda text: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._supervisor = supervisor
        self._context = context
        self._hooks = hooks
        self._remarks = remarks
        self._result_tokens = result_tokens
        self._handles = handles
        self._handle_of_note = handle_of_note
        self._wall = wall

    def handle(self, code: str | None) -> str | None:
        """Code by which a block has what was cut; None where blocks cannot have it.

        Args:
            code: The code.
        """
        return code if self._handles else None

    async def reports(self, items: Sequence[Item]) -> list[Report]:
        """Write what has landed together.

        Args:
            items: All of it.
        """
        held = [item for item in items if isinstance(item, BlockHeld)]
        results = sum(isinstance(item, BlockResult) for item in items)
        limit = self._context.share(self._result_tokens, results)
        reports = [await self._report(item, limit) for item in items if not isinstance(item, BlockHeld)]
        return reports + [
            held_report(by, [item.id for item in held if item.by == by]) for by in {i.by: 0 for i in held}
        ]

    async def _report(self, item: BlockResult | Heartbeat | Note | Report, limit: int) -> Report:
        match item:
            case BlockResult():
                result = await self._hooks.after_block(item)
                remark = self._remarks.pop(item.id, None)
                return result_report(
                    result,
                    self._context.count_text,
                    limit=limit,
                    remarks=() if remark is None else (remark,),
                    handles=self._handles,
                )
            case Heartbeat():
                return self._heartbeat(item)
            case Note():
                handle = self.handle(self._handle_of_note(item.text))
                return note_report(item.sender, self._context.fit(item.text, handle))
            case Report():
                return item

    def _heartbeat(self, beat: Heartbeat) -> Report:
        live = next((live for live in self._supervisor.live if live.id == beat.id), None)
        slowed = live is not None and live.heartbeat != live.block.heartbeat
        return running_report(
            beat.id,
            (StreamOutput("stdout", beat.text), *beat.more),
            self._context.count_text,
            current=beat.current,
            now=self._wall(),
            deadline=live.deadline if live else None,
            heartbeat=live.heartbeat if live and slowed else None,
            handles=self._handles,
        )

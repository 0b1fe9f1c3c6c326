"""From a block in a reply to a job in the supervisor's hands.

Comes in: blocks and cancels as the reader returns them. Goes out: jobs with settled ids, launched; what cannot
run is answered at once, as a result that says why.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

from codeact_kernel.agent.hooks import HookChain, Refused
from codeact_kernel.blocks import AgentBlock, Block, BlockResult, Cancel, Fault, Job, Outcome
from codeact_kernel.events import BlockFinished, BlockQueued, Event
from codeact_kernel.supervisor import Supervisor

NO_AGENTS = "Sub-agents are not available in this run: do that work in run_code blocks of your own."


class Launcher:
    """Settles ids and launches blocks.

    Args:
        supervisor: Who takes the jobs.
        hooks: May change or refuse a block.
        emit: Gets the events of blocks that never reach the supervisor.
        wall: The time in seconds since the epoch.
        free: Waits while nothing may be started; None for never.
        agents: Whether sub-agents can be started.
        used: The settled ids that there were before.
        take_back: Takes back what is no block, by its id.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        hooks: HookChain,
        emit: Callable[[Event], None],
        wall: Callable[[], float] = time.time,
        free: Callable[[], Awaitable[None]] | None = None,
        *,
        agents: bool = False,
        used: Iterable[str] = (),
        take_back: Callable[[str], bool] = lambda name: False,
    ) -> None:
        self._supervisor = supervisor
        self._hooks = hooks
        self._emit = emit
        self._wall = wall
        self._free = free
        self._agents = agents
        self._take_back = take_back
        self._used = Counter(id_.partition("#")[0] for id_ in used)
        self._unnamed = 0

    @property
    def in_use(self) -> set[str]:
        """The ids that are alive, as the model wrote them."""
        return {live.id.partition("#")[0] for live in self._supervisor.live}

    async def launch(self, block: Block, turn: int) -> str:
        """Launch a block.

        Args:
            block: The block.
            turn: The turn of the reply that it came in.

        Returns:
            Its settled id.
        """
        job = Job(self._settle(block.id), block, reply=turn)
        if isinstance(block, AgentBlock) and not self._agents:
            self._reject(job, turn, NO_AGENTS)
            return job.id
        try:
            job = await self._hooks.before_block(job)
        except Refused as refused:
            self._reject(job, turn, f"It was refused: {refused}")
            return job.id
        if self._free is not None:
            await self._free()
        self._supervisor.launch(job, turn)
        return job.id

    def cancel(self, cancel: Cancel) -> Fault | None:
        """End a block because the model's reply says so.

        Args:
            cancel: Which one.

        Returns:
            What to tell the model where there is none to end.
        """
        if self._supervisor.cancel(cancel.id, "you cancelled it") or self._take_back(cancel.id):
            return None
        alive = ", ".join(sorted(self.in_use)) or "none"
        return Fault(
            "attribute", f"There is no running block {cancel.id!r} to cancel; running: {alive}.", cancel.id
        )

    def _settle(self, name: str | None) -> str:
        while name is None:
            self._unnamed += 1
            candidate = f"b{self._unnamed}"
            if candidate not in self._used:
                name = candidate
        self._used[name] += 1
        return name if self._used[name] == 1 else f"{name}#{self._used[name]}"

    def _reject(self, job: Job, turn: int, reason: str) -> None:
        now = self._wall()
        self._emit(BlockQueued(turn, job.id, job.block, now))
        outcome = Outcome("rejected", error=reason)
        self._emit(BlockFinished(BlockResult(job.id, job.block, outcome, queued=now, ended=now)))

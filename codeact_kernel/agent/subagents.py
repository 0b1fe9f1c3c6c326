"""Runs `run_agent` blocks: a sub-agent for each, with a context and a kernel of its own.

Comes in: jobs from the supervisor. Goes out: what each sub-agent does, line by line, and its answer; what it hands
back, in its parent's namespace. Cancelling one ends its kernel at once, and so all below it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from codeact_kernel.agent.digest import Digest
from codeact_kernel.agent.kin import Kin, NoPlace
from codeact_kernel.agent.options import Options
from codeact_kernel.agent.parcels import CannotSeed, Parcels, Seeds
from codeact_kernel.blocks import AgentBlock, ClearOutput, CodeBlock, Job, Outcome, StreamOutput
from codeact_kernel.errors import CodeactError, ToolError
from codeact_kernel.kernels import KernelRunner
from codeact_kernel.protocols import LAST, Model, TreeObserver, Watcher
from codeact_kernel.record import AGENTS, slug
from codeact_kernel.tools import Tool, Toolset

if TYPE_CHECKING:
    from codeact_kernel.agent.agent import Agent
    from codeact_kernel.agent.assembly import Relations
    from codeact_kernel.agent.models import Models
    from codeact_kernel.agent.planning import Plan

ENDED = "was ended with its agent"


@dataclass
class Child:
    """A sub-agent, from its launch to its end."""

    job: Job
    work: asyncio.Task[Outcome] | None = None
    agent: Agent | None = None
    """While it is at work."""
    digest: Digest | None = None
    stopping: bool = False
    question: asyncio.Future[str] | None = None
    """What it has asked its parent and waits for."""
    answer: str | None = None
    returned: str | None = None
    """The parcel that it has handed back."""
    lacks: tuple[str, ...] = ()
    """What it may not do, and its parent may."""


class Subagents:
    """Runs `run_agent` blocks (a `Runner`).

    Args:
        options: What the parent is; its sub-agents are the same, but for what their blocks say.
        wanted: What was settled of that.
        kin: The parent's place.
        runner: The parent's kernel.
        models: Gives a sub-agent's model.
        seer: The model that sees, which all share; None where there is none.
        relations: What the parent has to do with others.
    """

    def __init__(
        self,
        options: Options,
        wanted: Plan,
        kin: Kin,
        runner: KernelRunner,
        models: Models,
        seer: Model | None,
        relations: Relations,
    ) -> None:
        self._options = options
        self._wanted = wanted
        self.kin = kin
        self.runner = runner
        self._models = models
        self._seer = seer
        self._relations = relations
        self._parcels = Parcels(kin, runner)
        self._children: dict[str, Child] = {}
        self._latest: dict[str, Child] = {}
        self._alive: set[str] = set()
        self.packed: dict[str, Seeds] = {}
        """What was packed already, by settled id: by code that has started a sub-agent itself."""

    # -- as a runner --------------------------------------------------------------------------------------

    async def run(self, job: Job, watcher: Watcher) -> Outcome:
        """As in `Runner`."""
        child = self._children[job.id] = self._latest[job.name] = Child(job)
        self._alive.add(job.id)
        child.work = asyncio.get_running_loop().create_task(
            self._place(child, watcher), name=f"agent {job.id}"
        )
        try:
            await asyncio.wait({child.work})
        except asyncio.CancelledError:
            child.work.cancel()
            await asyncio.wait({child.work})
            raise
        finally:
            self._alive.discard(job.id)
            if child.question is not None:
                child.question.cancel()
        return Outcome("cancelled") if child.work.cancelled() else child.work.result()

    async def interrupt(self, job_id: str, insistence: int = 0) -> None:
        """As in `Runner`: its kernel is ended first, since nothing of it is needed any more."""
        child = self._children.get(job_id)
        if job_id not in self._alive or child is None or child.work is None:
            return
        if insistence == LAST:
            child.work.cancel()
        elif not child.stopping:
            child.stopping = True
            if child.agent is None:
                child.work.cancel()
            else:
                child.agent.stop()
                await child.agent._end_kernel(ENDED)

    async def _place(self, child: Child, watcher: Watcher) -> Outcome:
        try:
            with self.kin.tree.place(self.kin.depth + 1):
                return await self._work(child, watcher)
        except (NoPlace, CannotSeed) as refused:
            return Outcome("rejected", error=str(refused))

    async def _work(self, child: Child, watcher: Watcher) -> Outcome:
        block = child.job.block
        assert isinstance(block, AgentBlock)
        seeds = self.packed.pop(child.job.id, None) or await self._parcels.pack(child.job, block)
        digest = child.digest = Digest(lambda line: watcher.output(StreamOutput("stdout", line)))
        async with AsyncExitStack() as stack:
            stack.callback(seeds.remove)
            try:
                agent = self._make(child, block, seeds, digest)
                async with self.kin.tree.starting:
                    await stack.enter_async_context(agent)
            except CodeactError as error:
                return Outcome("error", error=f"it could not be started: {error.message}")
            child.agent = agent
            stack.callback(setattr, child, "agent", None)
            watcher.started("agent", time.time())
            outcome = await self._run(child, agent, block, watcher)
            return replace(outcome, usage=agent.transcript.usage)

    async def _run(self, child: Child, agent: Agent, block: AgentBlock, watcher: Watcher) -> Outcome:
        try:
            run = await agent.run(block.task)
        except CodeactError as error:
            return Outcome("error", error=error.message)
        if run.answer is None:
            return Outcome("cancelled") if run.stop == "cancelled" else Outcome("error", error=run.message)
        child.answer = run.answer
        watcher.output(ClearOutput())
        watcher.output(StreamOutput("stdout", run.answer))
        notes = (
            ()
            if child.returned is None or block.by
            else (await self._parcels.take(child.job, child.returned, data=bool(child.lacks)),)
        )
        return Outcome(notes=notes)

    def _make(self, child: Child, block: AgentBlock, seeds: Seeds, digest: Digest) -> Agent:
        kin = self.kin
        name = child.job.id
        known = self._wanted.tools
        tools: list[Tool | Toolset] = [
            *(known[tool] for tool in seeds.tools if tool in known),
            *(of_set for of_set in self._wanted.sets if _is_seeded(of_set.name, seeds.tools)),
        ]
        model = self._models.for_agent(block.model, name)
        allowance = replace(kin.allowance, tools=frozenset(tool.name for tool in tools))
        child.lacks = allowance.lacks(kin.allowance)
        place = Kin(
            kin.tree,
            kin.tree.number(),
            (*kin.path, name),
            seeds.parcel,
            seeds.names,
            ask=lambda question: self._asked(child, question),
            hand_back=lambda parcel: setattr(child, "returned", parcel),
            record=(folder := self._relations.folder()),
            allowance=allowance,
            parent=kin,
        )
        return self._relations.spawn(
            replace(
                self._options,
                model=model,
                fork=None,
                then=self._models.then if isinstance(model, str) else None,
                vision=self._seer,
                tools=tools,
                mcp=None,
                namespace={},
                files={},
                run_dir=folder is not None and folder.path / AGENTS / slug(name),
                output_type=None,
                person=None,
                observers=(
                    digest,
                    *(o.of_agent(name) for o in self._options.observers if isinstance(o, TreeObserver)),
                ),
                settings=replace(self._wanted.settings, tools=(), mcp=None),
            ),
            place,
        )

    async def _asked(self, child: Child, question: str) -> str:
        if child.question is not None:
            raise ToolError("a question of yours waits for its answer already")
        child.question = asyncio.get_running_loop().create_future()
        name = json.dumps(child.job.name, ensure_ascii=False)
        self._relations.tell(
            f'{question}\n(It waits for your answer: self.steer({name}, "…") in a block.)', child.job.name
        )
        try:
            return await child.question
        finally:
            child.question = None

    # -- what `self` asks ----------------------------------------------------------------------------------

    def find(self, name: str) -> Child:
        """A sub-agent that has not ended.

        Args:
            name: Its name; of a reused one the latest.

        Raises:
            ToolError: If there is none.
        """
        child = self._latest.get(name) or self._children.get(name)
        if child is None or child.job.id not in self._alive:
            at_work = ", ".join(sorted(self._alive)) or "none"
            raise ToolError(f"there is no sub-agent {name!r} at work; at work: {at_work}")
        return child

    def steer(self, name: str, note: str) -> None:
        """Tell a sub-agent something, or answer its question."""
        child = self.find(name)
        if child.question is not None and not child.question.done():
            child.question.set_result(note)
        elif child.agent is None:
            raise ToolError(f"the sub-agent {name!r} has not begun yet")
        else:
            child.agent.steer(note, "parent")

    def result(self, name: str) -> dict[str, Any]:
        """What a sub-agent has come to: "answer"; "file", the parcel that it has handed back; "data", as in `take`.

        Raises:
            ToolError: If none of that name has answered.
        """
        child = self._latest.get(name) or self._children.get(name)
        if child is None or child.answer is None:
            known = ", ".join(n for n, c in self._latest.items() if c.answer is not None) or "none yet"
            raise ToolError(f"no sub-agent {name!r} has answered; these have: {known}")
        return {"answer": child.answer, "file": child.returned, "data": bool(child.lacks)}

    def said_by(self, job_id: str) -> dict[str, Any]:
        """As `result`, by settled id; both None where it has not answered."""
        child = self._children.get(job_id)
        if child is None:
            return {"answer": None, "file": None, "data": True}
        return {"answer": child.answer, "file": child.returned, "data": bool(child.lacks)}

    def picture(self, job_id: str) -> dict[str, Any]:
        """What there is to see of a sub-agent: "turns", "last", "blocks" and "agents"."""
        child = self._children.get(job_id)
        digest, agent = (None, None) if child is None else (child.digest, child.agent)
        live = [] if agent is None else agent.live
        return {
            "turns": 0 if digest is None else digest.turns,
            "last": "" if digest is None else digest.last,
            "asks": child is not None and child.question is not None,
            "blocks": [block.id for block in live if isinstance(block.block, CodeBlock)],
            "agents": [block.id for block in live if isinstance(block.block, AgentBlock)],
        }


def _is_seeded(of_set: str, tools: Sequence[str]) -> bool:
    """Whether a set of tools, one of them, or what it is a part of is among what a sub-agent is given."""
    return any(f"{tool}.".startswith(f"{of_set}.") or of_set.startswith(f"{tool}.") for tool in tools)

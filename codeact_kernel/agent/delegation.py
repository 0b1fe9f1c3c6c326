"""What blocks ask of sub-agents and of their own parent, answered on the host.

Comes in: calls of `self` over the bridge. Goes out: sub-agents started, steered and waited for, as the model's own
blocks do it; calls of proxies, made in the kernel where the object lives.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from codeact_kernel.agent.kin import Kin
from codeact_kernel.agent.launcher import Launcher
from codeact_kernel.agent.parcels import Seeds
from codeact_kernel.agent.subagents import Subagents
from codeact_kernel.blocks import AgentBlock, BlockResult, CodeBlock, Job, parse_duration
from codeact_kernel.errors import KernelError, ToolError
from codeact_kernel.kernels import Mailbox
from codeact_kernel.supervisor import Supervisor
from codeact_kernel.tools import caller

Lane = Literal["async", "main", "worker"]
_NOBODY = "nobody has started you, so there is nobody to hand anything to: print it, or answer"


class Delegation:
    """Answers the part of `self` that is about other agents.

    Args:
        kin: Whose `self` it is.
        subagents: Its sub-agents.
        supervisor: Has them in hand.
        launcher: Starts them.
        turn: Gives the number of the turn that goes on.
    """

    def __init__(
        self,
        kin: Kin,
        subagents: Subagents,
        supervisor: Supervisor,
        launcher: Launcher,
        turn: Callable[[], int],
    ) -> None:
        self._kin = kin
        self._subagents = subagents
        self._supervisor = supervisor
        self._launcher = launcher
        self._turn = turn
        self._numbers = itertools.count(1)
        self._ended: dict[str, asyncio.Future[BlockResult]] = {}
        """The sub-agents that code has started, each with its end."""
        self._callers: dict[str, str] = {}
        """The block that waits for a sub-agent, by the sub-agent's settled id."""
        self._serving: dict[str | None, tuple[int, ...]] = {}
        """Whose main lanes wait for a call that is made here, by the call's job."""

    @property
    def methods(self) -> dict[str, Callable[..., Any]]:
        """What `self.…` calls, by full name."""
        return {
            "self.run_agent": self.run_agent,
            "self.agents": self.agents,
            "self.steer": self.steer,
            "self.result": self.result,
            "self.parcel": self.parcel,
            "self.proxy": self.proxy,
            "self.return_value": self.return_value,
            "self.ask_parent": self.ask_parent,
        }

    def take(self, result: BlockResult) -> None:
        """Take the end of a sub-agent that code has started.

        Args:
            result: Its end.
        """
        self._end_of(result.id).set_result(result)

    def _end_of(self, job_id: str) -> asyncio.Future[BlockResult]:
        return self._ended.setdefault(job_id, asyncio.get_running_loop().create_future())

    async def run_agent(
        self,
        task: str,
        name: str | None,
        model: str | None,
        timeout: Any,
        parcel: str | None,
        note: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """Start a sub-agent for code, and wait for its end."""
        if not isinstance(name, str | None) or not isinstance(model, str | None):
            raise ToolError("name and model are texts, or None")
        if name is not None and name in self._launcher.in_use:
            raise ToolError(
                f"the name {name!r} is in use: it belongs to a block or a sub-agent that has not ended"
            )
        seconds = None if timeout is None else _seconds(timeout)
        seeds = None if parcel is None else self._seeds(parcel, note)
        by = caller() or "code"
        block = AgentBlock(str(task), id=name, model=model, timeout=seconds, after=(), by=by)
        job_id = await self._launcher.launch(block, self._turn())
        if seeds is not None:
            # Its life begins with the loop's next round.
            self._subagents.packed[job_id] = seeds
        self._callers[job_id] = by
        try:
            result = await asyncio.shield(self._end_of(job_id))
        except asyncio.CancelledError:
            self._supervisor.cancel(job_id, f"{by}, which waited for it, was stopped")
            raise
        finally:
            del self._callers[job_id]
            self._ended.pop(job_id, None)
        said = self._delivered(self._subagents.said_by(job_id))
        return {"name": job_id, "status": result.status, "message": result.outcome.error or "", **said}

    async def agents(self) -> list[dict[str, Any]]:
        """What `self.agents` tells."""
        now = time.time()
        return [
            {
                "name": live.id,
                "task": live.block.task,
                "state": live.state,
                **self._subagents.picture(live.id),
                "ran": None if live.started is None else round(now - live.started, 1),
                "left": None if live.deadline is None else round(live.deadline - now, 1),
            }
            for live in self._supervisor.live
            if isinstance(live.block, AgentBlock)
        ]

    async def steer(self, name: str, note: str) -> None:
        """Tell a sub-agent something."""
        self._subagents.steer(name, note)

    async def result(self, name: str) -> dict[str, Any]:
        """What a sub-agent has come to."""
        return self._delivered(self._subagents.result(name))

    def _delivered(self, said: dict[str, Any]) -> dict[str, Any]:
        """What a sub-agent has come to, with its parcel where this agent's kernel can reach it."""
        return said if said["file"] is None else {**said, "file": self._mail.put(said["file"])}

    async def parcel(self, to: Any = None) -> dict[str, Any]:
        """Where values can be put for another kernel, and what this agent may not do and that one may.

        Args:
            to: Who gets them: "parent", or the number of an agent whose object is called; None for a sub-agent, which
                never may do more.
        """
        if to == "parent":
            if self._kin.hand_back is None:
                raise ToolError(_NOBODY)
            parent = self._kin.parent
            lacks = self._kin.lacks if parent is None else self._kin.allowance.lacks(parent.allowance)
        else:
            lacks = () if to is None else self._kin.allowance.lacks(self._home(to)._kin.allowance)
        return {"file": self._mail.place(self._kin.tree.parcel(self._kin)), "lacks": list(lacks)}

    async def return_value(self, parcel: str) -> None:
        """Hand a parcel to the parent."""
        if self._kin.hand_back is None:
            raise ToolError(_NOBODY)
        self._kin.hand_back(self._own(parcel))

    @property
    def _mail(self) -> Mailbox:
        return self._subagents.runner.kernel.mail

    def _own(self, parcel: Any) -> str:
        """Take a parcel of this agent's own: what a kernel says may be anything, and is made code or a path of."""
        try:
            if (name := self._mail.name_of(parcel)) is None:
                raise ValueError(parcel)
            file = self._kin.tree.parcel_named(name, self._kin)
            self._mail.collect(file)
        except (OSError, ValueError):
            raise ToolError("this is no parcel of yours") from None
        return file

    def _seeds(self, parcel: Any, note: Any) -> Seeds:
        try:
            return Seeds.of(self._own(parcel), note)
        except ValueError as error:
            raise ToolError(f"the parcel cannot be read: {error}") from None

    def _home(self, owner: Any) -> Delegation:
        home = self._kin.tree.homes.get(owner) if type(owner) is int else None
        if home is None:
            raise ToolError("the agent in whose kernel the object lives has ended, and the object with it")
        return home

    async def ask_parent(self, question: str) -> str:
        """Ask the parent."""
        if self._kin.ask is None:
            raise ToolError("nobody has started you, so there is nobody to ask: ask the user in your answer")
        return await self._kin.ask(question)

    # -- proxies ------------------------------------------------------------------------------------------

    async def proxy(self, owner: int, number: int, name: str, asked: str | None, lane: str) -> dict[str, Any]:
        """Make a call where an object lives.

        Returns:
            "file", the parcel with what came of it; "data", whether it is taken as data only.
        """
        home = self._home(owner)
        # They become code of the owner's kernel, and the caller's may send anything.
        if type(number) is not int or not isinstance(name, str) or not name.isidentifier():
            raise ToolError("this is no call of an object")
        if asked is not None:
            asked = self._own(asked)
        place: Lane = lane if lane in ("async", "worker") else "main"  # type: ignore[assignment]
        file = await home.serve(self._kin, number, name, asked, place, self._waiting(caller()))
        delivered = self._mail.put(file)
        os.unlink(file)  # noqa: PTH108
        return {"file": delivered, "data": bool(home._kin.allowance.lacks(self._kin.allowance))}

    def _waiting(self, by: str | None) -> tuple[int, ...]:
        """The agents, by number, whose main lanes wait for what a block or a call calls."""
        if by in self._serving:
            return self._serving[by]
        in_main = any(live.id == by and live.lane == "main" for live in self._supervisor.live)
        return (self._kin.number,) if in_main else ()

    async def serve(
        self, who: Kin, number: int, name: str, asked: str | None, lane: Lane, waiting: tuple[int, ...]
    ) -> str:
        """Make another agent's call of an object that lives here.

        Args:
            who: Who calls.
            number: The object's.
            name: The method.
            asked: The parcel with the arguments; None to read an attribute.
            lane: Where its calls run.
            waiting: The agents, by number, whose main lanes wait for it.

        Returns:
            The parcel with the answer.

        Raises:
            ToolError: If the call would wait for itself, or could not be made.
        """
        if lane == "main":
            self._check_that_main_does_not_wait(who, waiting)
            waiting = (*waiting, self._kin.number)
        mine, theirs = self._kin.allowance, who.allowance
        file = self._kin.tree.parcel(self._kin)
        answer = {"file": self._mail.place(file), "lacks": list(mine.lacks(theirs))}
        given = None if asked is None else self._mail.put(asked)
        called = (
            "await get_ipython().kernel.family.aserve"
            if lane == "async"
            else "get_ipython().kernel.family.serve"
        )
        data = bool(theirs.lacks(mine))
        code = f"{called}({number!r}, {name!r}, {given!r}, {answer!r}, data={data!r})"
        job = Job(f"{who.name} {name} {next(self._numbers)}", CodeBlock(code, after=(), lane=lane), 0)
        self._serving[job.id] = waiting
        try:
            outcome = await self._subagents.runner.aside(job)
        except KernelError as error:
            raise ToolError(f"the kernel in which the object lives is gone: {error.message}") from error
        finally:
            del self._serving[job.id]
            if asked is not None:
                with suppress(FileNotFoundError):
                    os.unlink(asked)  # noqa: PTH108
        if outcome.status != "ok":
            raise ToolError(f"the call was ended in {self._kin.name}'s kernel: {outcome.error}")
        try:
            self._mail.collect(file)
        except OSError as error:
            raise ToolError(f"the answer of {self._kin.name}'s kernel cannot be had: {error}") from None
        return file

    def _check_that_main_does_not_wait(self, who: Kin, waiting: tuple[int, ...]) -> None:
        """A block that waits for its sub-agent in the main lane would have to end before that one's call can begin.

        So would one that waits for another agent's object which calls back.
        """
        if self._kin.number in waiting:
            raise ToolError(
                f"this call would wait for itself: it runs in the main lane of {self._kin.name}'s kernel, where the "
                "code runs that waits for it"
            )
        mine = self._kin.path
        if who.path[: len(mine)] != mine or who.path == mine:
            return
        below = who.path[len(mine)]
        for live in self._supervisor.live:
            if live.lane == "main" and self._callers.get(below) == live.id:
                raise ToolError(
                    f"this call would wait for itself: it runs in the main lane of {self._kin.name}'s kernel, where "
                    f"block {live.id} waits for {below}; with `await self.run_agent(…)` at its top level it would not"
                )


def _seconds(timeout: Any) -> float:
    try:
        return parse_duration(str(timeout))
    except ValueError as error:
        raise ToolError(str(error)) from None

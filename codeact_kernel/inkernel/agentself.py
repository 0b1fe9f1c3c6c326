"""`self` in a block: the agent that wrote the code.

Comes in: what code asks of its agent. Goes out: calls over the bridge to the host, which has the blocks; and what
this process knows itself, its processes and what of a block is meant to outlive it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from codeact_kernel.inkernel.bridge import Bridge
from codeact_kernel.inkernel.budget import Budget
from codeact_kernel.inkernel.children import Children
from codeact_kernel.inkernel.delegation import Delegation
from codeact_kernel.inkernel.family import Family
from codeact_kernel.inkernel.history import History
from codeact_kernel.inkernel.keeping import background, pid_of
from codeact_kernel.inkernel.lanes import Home
from codeact_kernel.inkernel.outputtext import OutputText
from codeact_kernel.inkernel.parcels import the_agent
from codeact_kernel.inkernel.request import current


class AgentSelf(Delegation):
    """The agent that wrote this code.

    `self.output(id)` gives a block's whole output, `self.cancel(id)` ends a block or a sub-agent, `self.blocks`,
    `self.agents` and `self.processes` tell what runs, `self.background(what)` lets something outlive its block,
    `self.restart()` begins with a fresh kernel, `self.budget` tells what the run has used and left, and
    `self.compact_knowledge(text)` replaces the conversation so far by what you write down; `self.history` still has all
    of it. `self.wake_in("2h", note)` lets the run sleep, and `self.goal_met(evidence)` ends one with a standing goal.
    `await self.run_agent(task)` has a sub-agent do a task, `self.steer(name, note)` tells it something,
    `self.result(name)` is what it handed back; as one, you hand back with `self.return_value(obj)` and ask with
    `await self.ask_parent(question)`.
    """

    def __init__(self, bridge: Bridge, children: Children, home: Callable[[], Home], family: Family) -> None:
        self._bridge = bridge
        self._children = children
        self._home = home
        self._family = family

    def __reduce__(self) -> tuple[Any, ...]:
        # Whoever gets a copy is another agent.
        return the_agent, ()

    def output(self, id: str) -> OutputText:  # noqa: A002
        """All that a block has printed and shown so far, as a text of any length.

        Args:
            id: The block's id; a reused one means the latest.

        Returns:
            A text like a `str`, of which only what is read is fetched: `o[a:b]`, `o.lines(a, b)`,
            `o.search(pattern)`, `print(o)`; `o.text` is a `str`.

        Raises:
            ToolError: If there is no such block.
        """

        def page(start: int, stop: int | None, lines: bool) -> Any:
            return self._bridge.call("self.output", (id, start, stop), {"lines": lines})

        return OutputText(id, page)

    def cancel(self, id: str) -> bool:  # noqa: A002
        """End a block that runs or waits, or a sub-agent with all that it has; or take a wake-up back.

        Args:
            id: The block's id, the sub-agent's name, or the wake-up's id.

        Returns:
            Whether there was one to end.
        """
        return bool(self._bridge.call("self.cancel", (id,)))

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The blocks that run or wait, oldest first: id, state, lane, last_line, and the seconds it ran and has left.

        `ran` is None for one that waits, `left` also for one without a limit.
        """
        blocks: list[dict[str, Any]] = self._bridge.call("self.blocks")
        return blocks

    @property
    def budget(self) -> Budget:
        """What the run, with all its agents, may use, has used and has left: tokens, cost, seconds, turns, agents."""
        return Budget(self._bridge.call("self.budget"))

    @property
    def processes(self) -> list[dict[str, Any]]:
        """The processes that blocks have started and that live: pid, command, and the block, None for nobody's."""
        return self._children.told()

    def background(self, what: Any) -> Any:
        """Let something outlive this block: it is not ended when the block is, only with the kernel.

        Args:
            what: A process (`subprocess.Popen`, asyncio's, multiprocessing's), a thread or a task that was started;
                or a coroutine or a function without arguments, which is started now.

        Returns:
            The process, thread or task.

        Raises:
            TypeError: If it is none of these.
        """
        pid = pid_of(what)
        if pid is not None:
            background.add(pid)
            return what
        if asyncio.iscoroutine(what):
            what = _start_task(what, self._home())
        elif callable(what) and not isinstance(what, threading.Thread):
            what = threading.Thread(target=what, name=getattr(what, "__name__", "background"), daemon=True)
            what.start()
        if not isinstance(what, threading.Thread | asyncio.Future):
            raise TypeError(f"a {type(what).__name__} is no process, thread, task, coroutine or function")
        request = current.get()
        if request is not None:
            request.leave_running(what)
        return what

    def restart(self) -> None:
        """Begin with a fresh kernel: all blocks that run are ended, this one included.

        Names come back from the last checkpoint, as far as it holds them; the next block says which.
        """
        self._bridge.call("self.restart")

    def compact_knowledge(self, text: str) -> None:
        """Replace the conversation so far by a text, from the next reply on.

        What is in the namespace stays. Write down all that you will need: the task, what is done, what was
        found, what is next, and which names hold what.

        Args:
            text: What you know.
        """
        self._bridge.call("self.compact_knowledge", (text,))

    def wake_in(self, after: str | float, note: str = "") -> str:
        """Be woken later. Until then the run does not end: answer nothing but that you wait, and it sleeps at no cost.

        Args:
            after: In how long: "10m", "2h", or seconds.
            note: What you want to be told then.

        Returns:
            Its id, for `self.cancel`.

        Raises:
            ToolError: If that is no duration.
        """
        name: str = self._bridge.call("self.wake_in", (after, note))
        return name

    @property
    def wake_ups(self) -> list[dict[str, Any]]:
        """The wake-ups that have not come, the next one first: id, note, and the seconds left."""
        wake_ups: list[dict[str, Any]] = self._bridge.call("self.wake_ups")
        return wake_ups

    def goal_met(self, evidence: str) -> None:
        """Declare that the standing goal is met; your next answer is then the last one.

        Args:
            evidence: What shows it: what you ran, and what came of it.

        Raises:
            ToolError: If there is no standing goal, or a command decides whether it is met.
        """
        self._bridge.call("self.goal_met", (evidence,))

    @property
    def history(self) -> History:
        """All that was said so far, compactions or not: `search`, `turn`, `task`, `notes`, `text`."""
        return History(self._bridge)

    def __repr__(self) -> str:
        return "<the agent; help(self) tells what it can do>"


def _start_task(coroutine: Any, home: Home) -> asyncio.Task[Any]:
    if threading.current_thread() is home.thread:
        return home.loop.create_task(coroutine)

    async def start() -> asyncio.Task[Any]:
        return home.loop.create_task(coroutine)

    return asyncio.run_coroutine_threadsafe(start(), home.loop).result()

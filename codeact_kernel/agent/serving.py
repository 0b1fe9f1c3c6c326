"""What answers the calls of an agent's blocks: its tools, and the plain part of `self`.

Comes in: tools, settings, the stations. Goes out: the server of calls, and the methods of `self` that are about blocks,
the kernel and the context.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from codeact_kernel.agent.config import Settings
from codeact_kernel.agent.context import Context
from codeact_kernel.agent.goal import Goal
from codeact_kernel.agent.history import History
from codeact_kernel.agent.hooks import HookChain
from codeact_kernel.agent.options import Options
from codeact_kernel.agent.wakeups import WakeUps
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.events import Event
from codeact_kernel.kernels import Back, Kernel, KernelRunner, Serve, Workshop
from codeact_kernel.masking import Mask
from codeact_kernel.policy import Doors
from codeact_kernel.supervisor import LiveBlock, Supervisor
from codeact_kernel.tools import CallCount, Caller, CallLimits, Catalogue, Quota, ToolServer


def make_server(
    catalogue: Catalogue,
    methods: Mapping[str, Callable[..., Any]],
    options: Options,
    settings: Settings,
    hooks: HookChain,
    count: CallCount,
    emit: Callable[[Event], None],
    doors: Doors,
    audited: Callable[[], Awaitable[None]] | None = None,
) -> ToolServer:
    """Make what answers calls.

    Args:
        catalogue: The tools.
        methods: What `self.…` and `tools.…` call; may grow.
        options: What the caller wants.
        settings: The settings.
        hooks: Asked before and after each call.
        count: What all agents of the run have called.
        emit: Told of each call.
        doors: Decide about each call.
        audited: Waits until what was told is in the audit; None where there is none.
    """
    limits = CallLimits(
        block=settings.max_calls_per_block,
        agent=settings.max_calls_per_agent,
        run=settings.max_calls if options.max_calls is None else options.max_calls,
        tools=settings.tool_limits,
    )
    quota = Quota(limits, count)
    after = hooks.after_tool_call if hooks.has("after_tool_call") else None
    return ToolServer(
        catalogue,
        methods,
        emit,
        hooks.before_tool_call,
        after,
        quota,
        options.dry_run,
        audited,
        doors.call,
        doors.passes,
    )


def answering(
    server: ToolServer,
    runner: Callable[[], KernelRunner],
    mask: Mask | None = None,
    workshop: Workshop | None = None,
) -> Serve:
    """Make what a kernel hands calls to.

    Args:
        server: What answers them.
        runner: Gives what runs the kernel's blocks, and knows whose code calls.
        mask: Knows the secrets that no error tells to a kernel.
        workshop: Where programs run that tools start for blocks; None for where tools themselves run.
    """
    walled = None if workshop is None else workshop.walled

    async def serve(
        name: str, args: Sequence[Any], kwargs: dict[str, Any], msg_id: str | None, back: Back
    ) -> Any:
        who = Caller(runner().block_of(msg_id), msg_id, back.note, back.give, walled)
        try:
            return await server.call(name, args, kwargs, who)
        except Exception as error:
            if mask:
                mask.error(error)
            raise

    return serve


def own_methods(
    supervisor: Supervisor,
    kernel: Kernel,
    context: Context,
    history: History,
    goal: Goal,
    wake_ups: WakeUps,
) -> dict[str, Callable[..., Any]]:
    """What `self.…` calls for blocks, the kernel and the context, by full name.

    Args:
        supervisor: Has the blocks in hand.
        kernel: Runs them.
        context: What the model reads.
        history: What it has read.
        goal: What it may declare met.
        wake_ups: What it may be woken by.
    """
    return {
        **block_methods(supervisor, kernel, wake_ups.cancel),
        **history.methods,
        **wake_ups.methods,
        "self.goal_met": goal.met,
        "self.compact_knowledge": in_the_loop(context.compact),
    }


def block_methods(
    supervisor: Supervisor, kernel: Kernel, take_back: Callable[[str], bool] = lambda id: False
) -> dict[str, Callable[..., Any]]:
    """What `self.…` calls for blocks and the kernel, by full name: all that needs no model.

    Args:
        supervisor: Has the blocks in hand.
        kernel: Runs them.
        take_back: Takes back what is no block, by its id.
    """
    return {
        "self.output": in_the_loop(supervisor.page),
        "self.cancel": in_the_loop(lambda id: supervisor.cancel(id, "you cancelled it") or take_back(id)),
        "self.blocks": in_the_loop(lambda: _blocks(supervisor.live, time.time())),
        "self.restart": partial(kernel.kill, "was restarted, because a block asked for it"),
    }


def _blocks(live: Iterable[LiveBlock], now: float) -> list[dict[str, Any]]:
    """The code blocks that have not ended, as `self.blocks` tells of them."""
    return [_told(block, now) for block in live if isinstance(block.block, CodeBlock)]


def _told(live: LiveBlock, now: float) -> dict[str, Any]:
    return {
        "id": live.id,
        "state": live.state,
        "lane": live.lane,
        "last_line": live.last_line,
        "ran": None if live.started is None else round(now - live.started, 1),
        "left": None if live.deadline is None else round(live.deadline - now, 1),
    }


def in_the_loop(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that is quick and reads what the loop writes: no thread may run it."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return call

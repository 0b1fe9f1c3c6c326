"""The warm parents of one source: one for each kind of kernel.

Comes in: how a kernel is started, and its environment. Goes out: the parent to fork it from. One that is gone is
started anew, a few times; then kernels of that kind are spawned.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack

from codeact_kernel.environment import parent_environment
from codeact_kernel.kernels.forked import Refused
from codeact_kernel.kernels.interpreter import Launch
from codeact_kernel.kernels.warm import CAN_FORK, WarmParent

log = logging.getLogger(__name__)

TRIES = 3
"""How often a parent of one kind is started, in a source's life."""

_Kind = tuple[tuple[str, ...], tuple[tuple[str, str], ...], tuple[str, ...]]


class Parents:
    """Warm parents, started when they are first asked for."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._starts: dict[_Kind, list[asyncio.Task[WarmParent | None]]] = {}

    async def find(
        self, launch: Launch, env: Mapping[str, str], preload: tuple[str, ...] = ()
    ) -> WarmParent | None:
        """The parent of one kind of kernel.

        Args:
            launch: How the kernel is started.
            env: Its environment.
            preload: Modules that are imported before the fork.

        Returns:
            The parent, ready; None where kernels of this kind are spawned.
        """
        if not CAN_FORK or not launch.ours:
            return None
        given = parent_environment(os.environ, env, bool(preload))
        starts = self._starts.setdefault((launch.argv, tuple(sorted(given.items())), preload), [])
        if not starts or (_is_over(starts[-1]) and len(starts) < TRIES):
            start = self._start(WarmParent(launch, given, preload))
            starts.append(asyncio.get_running_loop().create_task(start))
        # The start is not the asker's alone: another one may wait for it, too.
        return await asyncio.shield(starts[-1])

    async def aclose(self) -> None:
        """End them all."""
        starts = [start for kind in self._starts.values() for start in kind]
        for start in starts:
            start.cancel()
        await asyncio.gather(*starts, return_exceptions=True)
        await self._stack.aclose()

    async def _start(self, parent: WarmParent) -> WarmParent | None:
        try:
            await self._stack.enter_async_context(parent)
        except Refused as refused:
            log.warning("kernels are spawned, not forked: %s", refused)
            return None
        for module, problem in parent.left_out.items():
            log.warning("%s is not preloaded: %s", module, problem)
        return parent


def _is_over(start: asyncio.Task[WarmParent | None]) -> bool:
    if not start.done() or start.cancelled():
        return start.done()
    parent = start.result()
    if parent is not None:
        parent.look()
    return parent is None or bool(parent.gone)

"""The warm parents of one source, or of all sources of a process: one for each kind of kernel.

Comes in: how a kernel is started, and its environment. Goes out: the parent to fork it from. One that is gone is
started anew, a few times; then kernels of that kind are spawned.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager

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
        self._alive: list[WarmParent] = []
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
        await asyncio.gather(*(parent.aclose() for parent in self._alive))

    def close(self) -> None:
        """As `aclose`, where no loop runs any more."""
        for parent in self._alive:
            parent.close()

    async def _start(self, parent: WarmParent) -> WarmParent | None:
        try:
            await parent.__aenter__()
        except Refused as refused:
            log.warning("kernels are spawned, not forked: %s", refused)
            return None
        self._alive.append(parent)
        for module, problem in parent.left_out.items():
            log.warning("%s is not preloaded: %s", module, problem)
        return parent


_kept: dict[int, Parents] = {}
"""The warm parents that are kept, by the thread that keeps them."""


@contextmanager
def keep_warm() -> Generator[Parents]:
    """Keep warm parents for all agents that this thread starts within, one after the other or at once.

    The first one's kernel is there a little later than without; each further one's is forked, in an eighth of the
    time. Each kind of kernel has its own parent, of some 40 MB. Agents may run in one event loop or in several, one
    after the other.
    """
    thread = threading.get_ident()
    if (kept := _kept.get(thread)) is not None:
        yield kept
        return
    kept = _kept[thread] = Parents()
    try:
        yield kept
    finally:
        del _kept[thread]
        kept.close()


def kept_parents() -> Parents | None:
    """The warm parents that this thread keeps, if it does."""
    return _kept.get(threading.get_ident())


def _is_over(start: asyncio.Task[WarmParent | None]) -> bool:
    if not start.done() or start.cancelled():
        return start.done()
    parent = start.result()
    if parent is not None:
        parent.look()
    return parent is None or bool(parent.gone)

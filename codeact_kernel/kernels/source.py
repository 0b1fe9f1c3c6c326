"""Where kernels come from when many are wanted: forked from a warm parent, or ready before they are asked for.

Comes in: settings. Goes out: kernels. They are what a `Kernel` by itself would be, only sooner; where no warm parent
can be had, they are spawned.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codeact_kernel.errors import KernelDied, KernelError
from codeact_kernel.kernels.calls import Serve
from codeact_kernel.kernels.host import Kernel
from codeact_kernel.kernels.interpreter import Launch, choose
from codeact_kernel.kernels.memory import Together
from codeact_kernel.kernels.parents import Parents
from codeact_kernel.kernels.process import KernelProcess, environment_of, spawn
from codeact_kernel.kernels.settings import KernelSettings
from codeact_kernel.kernels.warm import WarmParent

log = logging.getLogger(__name__)

PAUSE = 0.1
"""Seconds after a kernel was taken in which its first block has the processors for itself."""
ANSWER = 1.0
"""Seconds that a ready kernel may take to answer before it is thrown away."""
START = 60.0
"""Seconds that a kernel may take to become ready while nobody waits for it."""


class KernelSource:
    """Gives kernels, alive inside an `async with`.

    `async with await source.take(settings) as kernel:` takes one, which ends when it is left; what nobody has left ends
    with the source. `take` may be called by any number of tasks at once, and cancelled: then nothing is left of the
    kernel that it was about to give.

    Args:
        ready: How many kernels of each kind are kept ready. A kind is what settings have in common but for the
            folder, `max_memory` and `start_timeout`; it is kept ready from the first kernel of it on.
        parents: The warm parents that others have, too; None for its own, which end with it.
    """

    def __init__(self, ready: int = 1, parents: Parents | None = None) -> None:
        self._size = ready
        self.together = Together()
        """What its kernels, and the one for which it was made, hold together."""
        self._shared = parents
        self._parents = parents or Parents()
        self._launches: dict[tuple[str | None, str | None], Launch] = {}
        self._stocks: dict[tuple[Any, ...], _Stock] = {}
        self._kernels: set[Kernel] = set()
        self._is_over = False

    async def __aenter__(self) -> KernelSource:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._is_over = True
        ends = [kernel.__aexit__(None, None, None) for kernel in self._kernels if not kernel.is_over]
        try:
            await asyncio.gather(*ends, *(stock.aclose() for stock in self._stocks.values()))
        finally:
            if self._shared is None:
                await self._parents.aclose()

    async def take(
        self,
        settings: KernelSettings,
        serve: Serve | None = None,
        tools: list[dict[str, Any]] | None = None,
        warn: Callable[[str], None] = lambda text: None,
        agent: tuple[int, str] = (0, "the agent"),
    ) -> Kernel:
        """Give a kernel that runs. After a death it gets its next process from here, too.

        Args:
            settings: Which one.
            serve: As in `Kernel`.
            tools: As in `Kernel`.
            warn: As in `Kernel`.
            agent: As in `Kernel`.

        Returns:
            The kernel, started; enter it, so that it ends when it is left.

        Raises:
            ConfigError: If the settings are wrong.
            KernelError: If it does not start.
        """
        kernel = Kernel(settings, serve, tools, warn, agent, self._begin, self.together)
        await kernel.start(await self._choose(settings))
        self._kernels = {kernel, *(other for other in self._kernels if not other.is_over)}
        return kernel

    async def prepare(self, settings: KernelSettings) -> None:
        """Begin to make kernels of a kind ready, and return.

        Args:
            settings: Which ones.

        Raises:
            ConfigError: If the settings are wrong.
        """
        launch = await self._choose(settings)
        if launch.forks:
            self._stock(launch, settings).fill(0)

    async def begin(self, launch: Launch, settings: KernelSettings) -> KernelProcess:
        """Give the process of a kernel that is the first of many, or the only one.

        It is forked where others have the warm parents, too. One for it alone would take as long to start as it does.

        Args:
            launch: How it is started.
            settings: Which kernel is wanted.

        Raises:
            KernelError: If it does not start.
        """
        if self._shared is None or not self._may_fork(launch, settings):
            return await spawn(launch, settings)
        return await self._stock(launch, settings).start(settings.cwd, settings.start_timeout)

    async def _choose(self, settings: KernelSettings) -> Launch:
        # To ask an interpreter for its version takes longer than to fork.
        choice = settings.kernel, settings.python
        if choice not in self._launches:
            self._launches[choice] = await choose(*choice)
        return self._launches[choice]

    async def _begin(self, launch: Launch, settings: KernelSettings) -> KernelProcess:
        if not self._may_fork(launch, settings):
            return await spawn(launch, settings)
        return await self._stock(launch, settings).take(settings)

    def _may_fork(self, launch: Launch, settings: KernelSettings) -> bool:
        return launch.forks and not settings.lease and not self._is_over

    def _stock(self, launch: Launch, settings: KernelSettings) -> _Stock:
        env = environment_of(launch, settings)
        kind = (launch.argv, tuple(sorted(env.items())), settings.preload, settings.sandbox)
        if kind not in self._stocks:
            self._stocks[kind] = _Stock(launch, env, settings, self._parents, self._size)
        return self._stocks[kind]


class _Stock:
    """The kernels of one kind: those that are ready, and how to start more."""

    def __init__(
        self, launch: Launch, env: dict[str, str], settings: KernelSettings, parents: Parents, size: int
    ) -> None:
        self._launch = launch
        self._env = env
        self._preload = settings.preload
        self._sandbox = settings.sandbox
        self._parents = parents
        self._size = size
        self._ready: deque[KernelProcess] = deque()
        self._processes: set[KernelProcess] = set()
        """All that have begun and not ended: a start that was cancelled may still be undone."""
        self._filling: asyncio.Task[None] | None = None

    async def take(self, settings: KernelSettings) -> KernelProcess:
        """Give one that is ready, or else start one."""
        process = await self._next() or await self.start(settings.cwd, settings.start_timeout)
        self.fill(PAUSE)
        return process

    def fill(self, pause: float) -> None:
        """Begin to start what is missing, after a pause in seconds."""
        if self._filling is None or self._filling.done():
            self._filling = asyncio.get_running_loop().create_task(self._fill(pause))

    async def aclose(self) -> None:
        """End them."""
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.gather(self._filling, return_exceptions=True)
        await asyncio.gather(*(process.stop() for process in self._processes))

    async def start(self, cwd: Path | None, timeout: float) -> KernelProcess:
        """Start one, in its own folder where none is given: forked, or spawned where that does not work."""
        parent = await self._parents.find(self._launch, self._env, self._preload)
        process = self._make(parent)
        try:
            await process.start(cwd or process.folder, self._env, timeout)
        except KernelDied as died:
            if parent is None:
                raise
            log.warning("a kernel is spawned, because a forked one did not start: %s", died.message)
            process = self._make(None)
            await process.start(cwd or process.folder, self._env, timeout)
        return process

    def _make(self, parent: WarmParent | None) -> KernelProcess:
        process = KernelProcess(self._launch, parent, self._sandbox)
        self._processes = {process, *(other for other in self._processes if not other.is_over)}
        return process

    async def _fill(self, pause: float) -> None:
        await asyncio.sleep(pause)
        try:
            await self._parents.find(self._launch, self._env, self._preload)
            while len(self._ready) < self._size:
                self._ready.append(await self.start(None, START))
        except (KernelError, OSError) as error:
            log.warning("no kernel could be made ready: %s", error)

    async def _next(self) -> KernelProcess | None:
        while self._ready:
            process = self._ready.popleft()
            try:
                async with asyncio.timeout(ANSWER):
                    await process.client.request("kernel_info_request", {})
                    return process
            except (KernelError, TimeoutError):
                await process.stop()
            except BaseException:
                await process.stop()
                raise
        return None

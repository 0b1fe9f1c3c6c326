"""A kernel's life: start it, give it what its blocks may use, replace it when it is gone, end it.

Comes in: settings. Goes out: `Kernel`, with its client, alive inside an `async with`. The process itself is a
`KernelProcess`, spawned, or by a `KernelSource` forked, or ready before it was asked for.

It is long because everything that is asked of a kernel is asked here, most of it in three lines.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any

from codeact_kernel.errors import ConfigError, KernelDied, KernelError
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.calls import Serve
from codeact_kernel.kernels.checkpoints import Checkpoints, Restored, after
from codeact_kernel.kernels.client import KernelClient
from codeact_kernel.kernels.disk import Disk
from codeact_kernel.kernels.interpreter import Launch, choose
from codeact_kernel.kernels.large import Large
from codeact_kernel.kernels.leases import Gone, Leased, LivedOn
from codeact_kernel.kernels.mailbox import Mailbox
from codeact_kernel.kernels.memory import Memory, Point, Together
from codeact_kernel.kernels.process import ROOM, KernelProcess, spawn, take_up
from codeact_kernel.kernels.sandbox import Told
from codeact_kernel.kernels.seeding import CLOUDPICKLE, Seeds
from codeact_kernel.kernels.settings import KernelSettings
from codeact_kernel.runfiles import Folder

Begin = Callable[[Launch, KernelSettings], Awaitable[KernelProcess]]
"""Gives a process of ours to use, which answers."""


class Kernel:
    """A running kernel.

    Args:
        settings: Which one.
        serve: Answers calls from its code.
        tools: What is bound in its namespace: descriptions as `inkernel.tools` takes them.
        warn: Called with what the model has to know of the kernel, such as that its memory runs short.
        agent: Whose kernel it is: a number that no other agent of its tree has, and a name.
        begin: Where its process comes from.
        together: The kernels with which it has its limit of memory together; None for it alone.
    """

    def __init__(
        self,
        settings: KernelSettings,
        serve: Serve | None = None,
        tools: list[dict[str, Any]] | None = None,
        warn: Callable[[str], None] = lambda text: None,
        agent: tuple[int, str] = (0, "the agent"),
        begin: Begin = spawn,
        together: Together | None = None,
    ) -> None:
        self.settings = settings
        self.ours = True
        self.description = ""
        """What it is, in words."""
        self.note = ""
        """Why it runs one block at a time, where it does."""
        self._serve = serve
        self._tools = tools or []
        self._agent = agent
        walled = settings.sandbox is not None
        self._memory = Memory(settings.max_memory, lambda: self.names, warn, share=walled, together=together)
        self._begin = begin
        self.on_reached: Told = lambda host, port, why: None
        """Told of each host that its blocks want to reach, where single hosts are allowed."""
        self.checkpoints = Checkpoints()
        """What its namespace is brought back from."""
        self._process: KernelProcess | None = None
        self._watches: list[asyncio.Task[None]] = []
        self._seeds = Seeds()
        self._python: tuple[int, ...] = ()
        self._reviving = asyncio.Lock()
        self.on_death: Callable[[KernelDied], None] = lambda death: None
        """Told each time that its process has ended though nobody has left it."""
        self.on_leased: Callable[[Leased], None] = lambda leased: None
        """Told each time that it has a process which may outlive this one: where that is."""
        self.lived_on: LivedOn | None = None
        """What became of a process of it that may have outlived its host; None where there was none."""
        self.is_over = False
        """Whether it has been left."""

    async def __aenter__(self) -> Kernel:
        if self._process is None:
            await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Also when this is cancelled meanwhile, once more: a process or a folder would be left.
        stopping, cancelled = asyncio.ensure_future(self._stop()), None
        while not stopping.done():
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError as error:
                cancelled = error
        self.is_over = True
        stopping.result()
        if cancelled is not None:
            raise cancelled

    async def start(self, launch: Launch | None = None, leased: Leased | None = None) -> None:
        """Start it, for who enters it later; entering it does the same.

        Args:
            launch: How, where that is known.
            leased: Where a process of it may live that has outlived its host: it is taken up, if it can be.

        Raises:
            ConfigError: If the settings are wrong.
            KernelError: If it does not start.
        """
        self._launch = launch or await choose(self.settings.kernel, self.settings.python)
        self.ours, self.note = self._launch.ours, self._launch.note
        if not self.settings.cwd.is_dir():
            raise ConfigError(f"the workspace {self.settings.cwd} is no folder")
        if self.settings.lease and (
            self._launch.provisioner or not self.ours or not hasattr(os, "pidfd_open")
        ):
            raise ConfigError(
                "only kernels of ours on this machine, which is a Linux, outlive their host: no lease"
            )
        if leased is None or not await self._take_up(leased):
            await self._start_whole(self._begin)

    @property
    def process(self) -> KernelProcess:
        """Its process; after a death the next one, once it was revived."""
        assert self._process is not None
        return self._process

    @property
    def mail(self) -> Mailbox:
        """How files come to its process from other kernels, and go to them."""
        return self.process.mail

    @property
    def client(self) -> KernelClient:
        """The channels to its process."""
        return self.process.client

    @property
    def pid(self) -> int | None:
        """The process's id, while it lives."""
        return self.process.pid

    @property
    def death(self) -> KernelDied | None:
        """How its process ended, if it did."""
        return self.process.death

    @property
    def leased(self) -> Leased | None:
        """Where its process is, if that may outlive this one."""
        return self._process.leased if self._process is not None else None

    @property
    def names(self) -> tuple[str, ...]:
        """What its namespace held when it was last heard of."""
        return self._process.names if self._process is not None else ()

    @names.setter
    def names(self, names: tuple[str, ...]) -> None:
        self.process.names = names

    @property
    def memory(self) -> tuple[Point, ...]:
        """What its processes held, oldest first: (seconds since the epoch, bytes of resident memory).

        Read about once a second. At most 1024 points, over its whole life: once there are more readings, each point
        stands for the same number of them and is the largest.
        """
        return self._memory.curve.points

    async def interrupt(self, msg_id: str, *, insisting: bool = False) -> None:
        """Interrupt one execute request; in a kernel that is not ours, whatever runs.

        Args:
            msg_id: The request's id.
            insisting: Whether also its processes are ended, the sockets that it waits for shut down, and its code
                is interrupted at each line that it still runs.
        """
        if self.ours:
            kind = wire.INSIST if insisting else "interrupt_request"
            await self.client.request(kind, {"msg_id": msg_id}, channel="control")
        else:
            await self.process.manager.interrupt_kernel()

    async def interrupt_by_signal(self, msg_id: str) -> None:
        """Interrupt one execute request of our kernel though no thread of it answers.

        Only a request on the main thread can be reached so, and there only code that looks for signals.

        Args:
            msg_id: The request's id.
        """
        if self.ours:
            self.process.leave(wire.INTERRUPT_FILE, msg_id)
            await self.process.send_signal(signal.SIGINT)

    async def admit(self, msg_id: str, code: str | None) -> None:
        """Let an execute request run that came with `held` in its metadata.

        Args:
            msg_id: The request's id.
            code: What it runs instead of its code; None for that.
        """
        await self.client.request(wire.ADMIT, {"msg_id": msg_id, "code": code}, channel="control")

    async def refuse(self, msg_id: str) -> None:
        """Have an execute request answered that came with `held` in its metadata, and will not run.

        Args:
            msg_id: The request's id.
        """
        await self.client.request(wire.REFUSE, {"msg_id": msg_id}, channel="control")

    async def cut_off(self, msg_id: str) -> None:
        """Have an execute request answered though its code does not end; what it still does is cut off.

        Args:
            msg_id: The request's id.
        """
        await self.client.request(wire.CUT_OFF, {"msg_id": msg_id}, channel="control")

    async def end_rest(self, msg_id: str) -> dict[str, Any]:
        """End what an execute request that had to end has left running, but for what its code keeps for later.

        Args:
            msg_id: The request's id.

        Returns:
            "ended": the ids of the processes that were ended; "processes": [id, command line] of those that live;
            "threads": the names of the threads that nothing ends.
        """
        reply = await self.client.request(wire.END_REST, {"msg_id": msg_id}, channel="control")
        content: dict[str, Any] = reply["content"]
        return content

    async def kill(self, reason: str) -> None:
        """End the process and all below it at once. The next block gets a new one, and is told.

        Args:
            reason: Why, as a clause that follows "the kernel": "was restarted to stop block a".
        """
        await self.process.kill(reason)

    async def restart(self, reason: str) -> tuple[str, ...]:
        """End the process and all below it, and start the next one. What was seeded is bound again.

        Args:
            reason: As for `kill`.

        Returns:
            The names that are gone.

        Raises:
            KernelError: If the next one does not start.
        """
        before = self.names
        await self.kill(reason)
        await self.process.ended()
        await self.revive()
        return tuple(name for name in before if name not in self.names)

    async def variables(self) -> list[dict[str, str]]:
        """What the names of our kernel hold: as `survey` tells."""
        told, _ = await self.survey()
        return told

    async def survey(self) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
        """What our kernel holds, told while blocks run, too.

        Returns:
            {"name", "type", "size", "bytes", "value"} of each name, all texts; {"pid", "command", "block"} of each
            process that blocks have started.

        Raises:
            KernelError: If the kernel is gone.
        """
        reply = await self.client.request(wire.VARIABLES, {}, channel="control")
        return reply["content"]["variables"], reply["content"]["processes"]

    async def revive(self) -> KernelDied | None:
        """Start a new process in place of one that has ended, or that cannot be reached any more.

        What was seeded is bound again; everything else that the namespace held is gone.

        Returns:
            How the old one ended, with the names that are gone; None where it lives.

        Raises:
            KernelError: If the new one does not start.
        """
        async with self._reviving:
            death = self.death
            if death is None:
                if self.client.lost is None:
                    return None
                why = f"was restarted: {self.client.lost}"
                await self.kill(why)
                death = KernelDied(f"the kernel {why}", lost=self.names)
            await self._stop()
            await self._start_whole(self._begin)
            await self._seeds.bind_again(self.client, self.mail)
            self.names = self._seeds.names
            restored = await self._bring_back()
            return after(death, self.names, restored)

    def keep_checkpoints(self, checkpoints: Checkpoints) -> None:
        """Take checkpoints of its namespace from now on, and bring back what they hold after a death.

        Args:
            checkpoints: Its checkpoints.
        """
        self.checkpoints = checkpoints
        if self.ours:
            keeping = checkpoints.keep(self.process)
            self._watches.append(asyncio.get_running_loop().create_task(keeping))

    async def restore(self, run: Folder | None = None) -> Restored:
        """Bind what the checkpoint of a run holds. Nothing has run in this kernel yet.

        Args:
            run: The folder of that run; None for this kernel's own.

        Returns:
            What is back, and what is not, and why.

        Raises:
            KernelError: If the kernel's process has ended from it.
        """
        if not self.ours:
            return Restored()
        restored = await self.checkpoints.restore(self.process, run)
        self.names = tuple(dict.fromkeys((*self.names, *restored.back)))
        return restored

    async def _bring_back(self) -> Restored:
        """Restore after a death; a process that ends from it is replaced by one that holds nothing of it."""
        try:
            restored = await self.checkpoints.bring_back(self.process)
        except KernelDied as death:
            await self._stop()
            await self._start_whole(self._begin)
            await self._seeds.bind_again(self.client, self.mail)
            restored = Restored(fault=f"bringing the checkpoint back failed: {death.message}")
        self.names = tuple(dict.fromkeys((*self._seeds.names, *restored.back)))
        return restored

    async def seed(self, values: dict[str, Any]) -> None:
        """Bind values in the namespace.

        Args:
            values: The values by name.

        Raises:
            ConfigError: If one cannot be passed; says which and why. None is bound then.
        """
        if not values:
            return
        if not self.ours:
            raise ConfigError(f"no values can be passed to this kernel: {self.note}")
        await self._seeds.bind(self.client, values, self._python)

    async def seed_parcel(self, file: str, names: Iterable[str]) -> None:
        """Bind what another kernel has packed.

        Args:
            file: The parcel; it has to stay as long as this kernel lives, which may be restarted.
            names: The names that are in it.

        Raises:
            ConfigError: If something of it cannot be read here; says what and why.
        """
        await self._seeds.bind_parcel(self.client, self.mail, file, names)

    async def _take_up(self, leased: Leased) -> bool:
        """Take up a process that lived on; gives whether that went. If not, nothing of it is left."""

        async def found(launch: Launch, settings: KernelSettings) -> KernelProcess:
            return await take_up(launch, settings, leased)

        try:
            await self._start_whole(found, again=True)
        except KernelError as error:
            self.lived_on = LivedOn(error.message if isinstance(error, Gone) else f"is lost: {error.message}")
        return self._process is not None and not self._process.is_over

    def settle(self) -> None:
        """Take that what lived on in it is taken up: from now on it ends when it is left. Before, it is let go of."""
        self.process.is_spared = False

    async def _start_whole(self, begin: Begin, *, again: bool = False) -> None:
        self._process = await begin(self._launch, self.settings)
        self._process.on_death = lambda death: self.on_death(death)
        self._process.checkpoint = lambda: self.checkpoints.at
        self._process.room = lambda: min(ROOM, self._memory.left // 2)
        if self._process.proxy is not None:
            self._process.proxy.told = lambda *about: self.on_reached(*about)
        try:
            await self._open_bridge(again)
            watches = [self._watch_memory(), *([self._watch_disk()] if self.settings.sandbox else [])]
            self._watches = [asyncio.get_running_loop().create_task(watch) for watch in watches]
            self.keep_checkpoints(self.checkpoints)
        except BaseException as error:
            if isinstance(error, KernelError):
                self._process.is_spared = False
            await self._stop()
            raise
        if self._process.leased is not None:
            self.on_leased(self._process.leased)

    async def _open_bridge(self, again: bool) -> None:
        if not self.ours:
            banner = str(self.process.info.get("banner", ""))
            self.description = banner.partition("\n")[0] or self._launch.language
            return
        sandbox = self.settings.sandbox
        self.client.serve_with(self._serve, Large(self.process.folder, self.settings.max_result))
        content = {
            "tools": self._tools,
            "self": bool(self._serve),
            "agent": self._agent,
            "cloudpickle": CLOUDPICKLE,
            "cwd": str(self.settings.cwd.resolve()),
            # Landlock leaves sockets open that lie in folders.
            "seal": sandbox is not None and sandbox.mode == "landlock" and not self._launch.provisioner,
            "again": again,
            "host": self.process.hold.number if self.process.hold is not None else 0,
        }
        reply = await self.client.request(wire.OPEN, content, channel="control")
        about = reply["content"]
        if about["status"] != "ok":
            raise KernelError(f"the kernel did not start: {about['error']}")
        if about["protocol"] != wire.PROTOCOL:
            raise KernelError(
                f"the kernel's codeact-kernel is another version (its protocol is {about['protocol']}, here it is "
                f"{wire.PROTOCOL}): install the same one where it runs"
            )
        self.process.is_open = True
        if again:
            self.lived_on = LivedOn(requests=about["requests"])
        self._python = tuple(int(part) for part in about["python"].split(".")[:2])
        by = f", started by {self._launch.provisioner}" if self._launch.provisioner else ""
        self.description = f"Python {about['python']}, ipykernel {about['ipykernel']}{by}"

    async def _watch_memory(self) -> None:
        """End the processes before they take the machine's memory, where there is a sandbox or an owner's limit."""
        if self.pid is not None and (reason := await self._memory.watch(self.pid)):
            await self.kill(reason)

    async def _watch_disk(self) -> None:
        """End the processes before they fill the disk."""
        sandbox = self.settings.sandbox
        assert sandbox is not None
        disk = Disk([sandbox.workspace, self.process.own], sandbox.settings.max_growth)
        await self.kill(await disk.watch())

    async def _stop(self) -> None:
        for watch in self._watches:
            watch.cancel()
        if self._process is not None:
            await self.checkpoints.close(self._process)
            await self._process.stop()
        await asyncio.gather(*self._watches, return_exceptions=True)

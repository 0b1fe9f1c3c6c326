"""A kernel's process: its private folder, jupyter_client's manager, the client, and what is known of its end.

Comes in: how to start it. Goes out: a process that answers, whoever will use it. What it is used for (tools, seeded
values, limits) is its `Kernel`'s.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

from codeact_kernel.environment import kernel_environment
from codeact_kernel.errors import KernelDied, KernelError, KernelStartTimeout
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.client import KernelClient
from codeact_kernel.kernels.forked import UNKNOWN, ForkedProcess
from codeact_kernel.kernels.interpreter import Launch
from codeact_kernel.kernels.janitor import janitor
from codeact_kernel.kernels.leases import ANSWER, START, Gone, Hold, Leased, connection_of, take_hold
from codeact_kernel.kernels.mailbox import Mailbox
from codeact_kernel.kernels.provisioner import ForkingProvisioner
from codeact_kernel.kernels.sandbox import PROXY, Cell, Proxy, Sandbox, make_kernel_folder, own_folder
from codeact_kernel.kernels.settings import KernelSettings
from codeact_kernel.kernels.warm import WarmParent

DEATH_POLL = 0.2
"""Seconds between two looks at the process."""
LOG_TAIL = 2**16
"""Bytes of the end of what a kernel has written to its log that are looked at."""
ROOM = 2**30
"""Bytes of memory that a checkpoint may take where there is enough; ours."""
CHILDREN_TIMEOUT = 3.0
"""Seconds that a kernel may take to end its children: it needs 0.5 where they heed SIGTERM or not."""


class _OneSpec(KernelSpecManager):  # type: ignore[misc]
    """Knows one kernelspec, which is nowhere on disk."""

    spec: Any = None

    def get_kernel_spec(self, kernel_name: str) -> Any:
        """The one."""
        return self.spec


class KernelProcess:
    """A kernel's process, from its start to its end.

    Args:
        launch: How to start it.
        warm: What to fork it from; None to spawn it.
        sandbox: What it is walled in by; None for nothing.
        hold: The hold on it, where it may outlive its host.
        folder: Its folder, where it lives already; None makes one.
    """

    def __init__(
        self,
        launch: Launch,
        warm: WarmParent | None = None,
        sandbox: Sandbox | None = None,
        hold: Hold | None = None,
        folder: Path | None = None,
    ) -> None:
        self.launch = launch
        self.names: tuple[str, ...] = ()
        """What its namespace held when it was last heard of."""
        self.death: KernelDied | None = None
        """How it ended, if it did."""
        self.on_death: Callable[[KernelDied], None] = lambda death: None
        """Told once it has ended, unless it was stopped."""
        self.checkpoint: Callable[[], str] = lambda: ""
        """Says of what time there is a checkpoint of its namespace."""
        self.room: Callable[[], int] = lambda: ROOM
        """Says how many bytes of memory a checkpoint may take."""
        self.info: dict[str, Any] = {}
        """What it answered to a kernel_info_request."""
        self.is_open = False
        """Whether the bridge to it is open."""
        self._killed = ""
        self._is_watched = False
        self._watcher: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self.is_over = False
        """Whether it was stopped."""
        self.hold = hold
        """This host's hold on it, where it may outlive that."""
        self.leased: Leased | None = None
        """Where another host finds it then."""
        self.is_spared = False
        """Whether to stop is to let go of it: it lived on, and nobody has settled down in it yet."""
        self.folder = folder or make_kernel_folder()
        self.own = own_folder(self.folder)
        """What of its folder the kernel may write."""
        self.mail = Mailbox(self.own)
        """How files come to it from others, and go to them."""
        self._own = os.open(self.own, os.O_DIRECTORY | os.O_NOFOLLOW)
        self._sandbox = sandbox
        self._cell: Cell | None = None
        self.proxy: Proxy | None = None
        """Where its blocks reach hosts that are allowed."""
        self.manager = _manager(launch, self.folder, self.own, warm)
        if hold is not None:
            self.manager.provisioner.hold = hold

    async def start(self, cwd: Path, env: Mapping[str, str], timeout: float) -> None:
        """Start it, and wait until it answers.

        Args:
            cwd: The folder in which it runs.
            env: Its environment.
            timeout: Seconds that it may take.

        Raises:
            KernelError: If it does not start. Nothing of it is left then.
        """
        try:
            await self._start(cwd, {**env, "IPYTHONDIR": str(self.own / "ipython")})
            self.info = await self.client.ready(timeout)
        except TimeoutError:
            text = f"the kernel did not answer within {timeout:g} s{self._log_tail()}"
            await self.stop()
            raise KernelStartTimeout(text) from None
        except BaseException:
            await self.stop()
            raise

    async def take_up(self, process: ForkedProcess, leased: Leased) -> None:
        """Be the host of one that lives already.

        Args:
            process: Its keeper.
            leased: Where it is.

        Raises:
            KernelError: If it does not answer. It is ended then.
        """
        provisioner, self.leased, self.is_spared = self.manager.provisioner, leased, True
        provisioner.process, provisioner.pid, provisioner.pgid = process, process.pid, process.pid
        try:
            if self._sandbox is not None:
                self._cell = self._sandbox.cell(self.folder, lives=True, uid=leased.uid)
                provisioner.cell = self._cell
                (self.folder / PROXY).unlink(missing_ok=True)
                await self._open_proxy(self._sandbox, self._cell)
            self._connect(connection_of(self.folder))
            self.info = await self.client.ready(ANSWER)
        except TimeoutError:
            self.is_spared = False
            await self.stop()
            raise Gone(f"lived on, but did not answer within {ANSWER:g} s, and was ended") from None
        except BaseException:
            await self.stop()
            raise

    @property
    def kernel_pid(self) -> int | None:
        """The id of the process in which blocks run, while it lives and is known: a sandbox is made of others."""
        return getattr(self.manager.provisioner, "kernel_pid", None)

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel, and to nothing that it has started.

        Args:
            signum: The signal's number.
        """
        with suppress(ProcessLookupError):
            await self.manager.provisioner.send_signal(signum)

    def leave(self, name: str, text: str) -> None:
        """Leave a note where the kernel can read and remove it. It may have anything lie there by now.

        Args:
            name: The note's name.
            text: What it says.
        """
        with suppress(OSError):
            os.unlink(name, dir_fd=self._own)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with suppress(OSError), open(os.open(name, flags, 0o644, dir_fd=self._own), "w") as note:
            note.write(text)

    @property
    def pid(self) -> int | None:
        """The process's id, while it lives; None where it is none of this machine's."""
        return getattr(self.manager.provisioner, "pid", None)

    async def kill(self, reason: str) -> None:
        """End it and all below it at once.

        Args:
            reason: Why, as a clause that follows "the kernel".
        """
        self._killed = reason
        if self.manager.has_kernel and self.death is None and self._stopping is None:
            await self.manager.provisioner.kill()

    async def ended(self) -> None:
        """Wait until it has ended and its end is known."""
        if self._watcher is not None:
            await asyncio.wait({self._watcher})

    async def stop(self) -> None:
        """End it, and what its blocks have left running.

        It goes on to its end though who waits for it is cancelled. May be called twice.
        """
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        if not self.is_spared:
            await self._end_children()
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        if hasattr(self, "client"):
            await self.client.aclose()
        if not self.is_spared:
            await self._end()
        self.manager.context.destroy(linger=0)
        os.close(self._own)
        if self.proxy is not None:
            await self.proxy.aclose()
        if self._cell is not None:
            await asyncio.to_thread(self._cell.close)
        if self.hold is not None:
            self.hold.let_go() if self.is_spared else self.hold.close()
        if not self.is_spared:
            shutil.rmtree(self.folder, ignore_errors=True)
        if self._is_watched:
            janitor.release(self.folder)
            self._is_watched = False
        self.is_over = True

    async def _end(self) -> None:
        if self.hold is not None and self._cell is not None and self.death is None:
            # As long as its keeper keeps others from its number.
            await asyncio.to_thread(self._cell.sweep)
        if self.manager.has_kernel:
            await self.manager.shutdown_kernel(now=True)
            self.manager.cleanup_connection_file()

    async def _start(self, cwd: Path, env: dict[str, str]) -> None:
        try:
            if self.hold is not None:
                self.hold.prepare(self.folder)
            if self._sandbox is not None and not self.launch.provisioner:
                self._cell = await asyncio.to_thread(self._sandbox.cell, self.folder)
                self.manager.provisioner.cell = self._cell
                await self._open_proxy(self._sandbox, self._cell)
            with open(os.devnull, "rb") as nothing, open(self.folder / "log", "wb") as log:  # noqa: ASYNC230
                await self.manager.start_kernel(cwd=str(cwd), env=env, stdin=nothing, stdout=log, stderr=log)
        except (OSError, ValueError) as exception:
            raise KernelError(f"the kernel did not start: {exception}") from exception
        except Exception as exception:
            if not self.launch.provisioner:
                raise
            # Somebody else's code, and his words.
            why = f"{self.launch.provisioner}: {type(exception).__name__}: {exception}"
            raise KernelError(f"the kernel did not start: {why}") from exception
        if self.hold is None:
            janitor.watch(self.folder, self.pid, getattr(self.manager.provisioner, "ending", ()))
            self._is_watched = True
        else:
            uid = self._cell.place.uid if self._cell is not None else None
            self.leased = await self.hold.take(self.folder, START, uid)
        self._connect(self.manager.get_connection_info())

    def _connect(self, connection: dict[str, Any]) -> None:
        self.client = KernelClient(connection)
        self.client.connect()
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def _open_proxy(self, sandbox: Sandbox, cell: Cell) -> None:
        if sandbox.settings.allow_hosts:
            self.proxy = Proxy(sandbox.settings.allow_hosts)
            await self.proxy.start(self.folder / PROXY)
            cell.admit(self.folder / PROXY)

    async def _watch(self) -> None:
        """Tell everybody when the process ends; nothing on the channels would."""
        while (code := await self.manager.provisioner.poll()) is None:  # noqa: ASYNC110
            await asyncio.sleep(DEATH_POLL)
        code = None if code == UNKNOWN else code
        how = f"the kernel {self._killed}" if self._killed else _how_it_died(code) + self._log_tail()
        self.death = KernelDied(how, returncode=code, lost=self.names, checkpoint=self.checkpoint())
        self.client.lose(self.death)
        self.on_death(self.death)

    async def _end_children(self) -> None:
        """What blocks have started and left running ends with the kernel; afterwards nobody would find it."""
        if self.launch.ours and self.death is None and self.is_open:
            with suppress(KernelError, TimeoutError):
                async with asyncio.timeout(CHILDREN_TIMEOUT):
                    await self.client.request(wire.END_REST, {}, channel="control")

    def _log_tail(self) -> str:
        try:
            with open(os.open(self.folder / "log", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as log:
                # Its last lines are enough: code in the kernel can write to it without end.
                log.seek(max(0, os.fstat(log.fileno()).st_size - LOG_TAIL))
                text = log.read(LOG_TAIL).decode("utf-8", "replace").strip()
        except OSError:
            return ""
        return f"; it said: {text.splitlines()[-1][:300]}" if text else ""


def environment_of(launch: Launch, settings: KernelSettings) -> dict[str, str]:
    """The environment of a kernel, as things are now.

    Args:
        launch: How it is started.
        settings: Which kernel is wanted.
    """
    return kernel_environment(os.environ, settings.env, {**launch.env, **dict(settings.variables)})


async def spawn(launch: Launch, settings: KernelSettings) -> KernelProcess:
    """Start a process for one kernel.

    Args:
        launch: How.
        settings: Which kernel is wanted.

    Raises:
        KernelError: If it does not start.
    """
    hold = Hold(launch, settings) if settings.lease else None
    process = KernelProcess(launch, sandbox=settings.sandbox, hold=hold)
    await process.start(settings.cwd, environment_of(launch, settings), settings.start_timeout)
    return process


async def take_up(launch: Launch, settings: KernelSettings, leased: Leased) -> KernelProcess:
    """Take up a process that has outlived its host.

    Args:
        launch: How a new one would be started.
        settings: Which kernel is wanted. One that was started otherwise is ended.
        leased: Where it is.

    Raises:
        KernelError: If it has ended, or does not answer; nothing of it is left then.
    """
    hold, process, found = await take_hold(launch, settings, leased)
    taken = KernelProcess(launch, sandbox=settings.sandbox, hold=hold, folder=Path(leased.folder))
    await taken.take_up(process, leased)
    if leased.walls != found.walls:
        taken.is_spared = False
        await taken.stop()
        raise Gone("lived on, but was started otherwise than what is asked for now, and was ended")
    return taken


def _manager(launch: Launch, folder: Path, own: Path, warm: WarmParent | None) -> Any:
    spec = KernelSpec(argv=list(launch.argv), language=launch.language, display_name="codeact")
    spec.interrupt_mode = launch.interrupts
    specs = _OneSpec()
    specs.spec = spec
    manager = AsyncKernelManager(kernel_spec_manager=specs, kernel_name="codeact")
    manager.connection_file = str(folder / "kernel.json")
    manager.shutdown_wait_time = 3.0
    manager.cache_ports = False
    if sys.platform != "win32":
        manager.transport = "ipc"
        manager.ip = str(own / "s")
    if launch.provisioner:
        # The manager makes it when the kernel starts.
        stanza = {"provisioner_name": launch.provisioner, "config": launch.config}
        spec.metadata = {"kernel_provisioner": stanza}
    else:
        manager.provisioner = ForkingProvisioner(parent=manager, kernel_spec=spec)
        manager.provisioner.warm, manager.provisioner.own = warm, len(launch.command)
    return manager


def _how_it_died(code: int | None) -> str:
    if code is None:
        return "the kernel's process is gone"
    if code >= 0:
        return f"the kernel's process ended by itself with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (out of memory is the usual reason)" if name == "SIGKILL" else ""
    return f"the kernel's process was ended by {name}{hint}"

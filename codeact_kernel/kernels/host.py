"""A kernel's life: start it, watch its process, end it.

Comes in: settings. Goes out: `Kernel`, with its client, alive inside an `async with`. The process is started by
jupyter_client's manager and provisioner; its sockets lie in a private folder that goes when it goes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import cloudpickle
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

from codeact_kernel.errors import ConfigError, KernelDied, KernelError, KernelStartTimeout
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.client import KernelClient, Serve
from codeact_kernel.kernels.environment import kernel_environment
from codeact_kernel.kernels.interpreter import Launch, choose
from codeact_kernel.kernels.janitor import janitor
from codeact_kernel.kernels.seeding import pickle_values

DEATH_POLL = 0.2
"""Seconds between two looks at the process."""
CHILDREN_TIMEOUT = 3.0
"""Seconds that a kernel may take to end its children: it needs 0.5 where they heed SIGTERM or not."""


@dataclass(frozen=True, slots=True)
class KernelSettings:
    """Which kernel, and in what surroundings."""

    kernel: str | None = None
    """A kernelspec's name, whose interpreter runs the kernel."""
    python: str | None = None
    """An interpreter's path."""
    cwd: Path = field(default_factory=Path)
    """The folder in which blocks run."""
    env: tuple[str, ...] = ()
    """Names of the host's variables that blocks may see."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables to set for blocks."""
    start_timeout: float = 60.0
    """Seconds that it may take to answer."""


class _OneSpec(KernelSpecManager):  # type: ignore[misc]
    """Knows one kernelspec, which is nowhere on disk."""

    spec: Any = None

    def get_kernel_spec(self, kernel_name: str) -> Any:
        """The one."""
        return self.spec


class Kernel:
    """A running kernel.

    Args:
        settings: Which one.
        serve: Answers calls from its code.
        tools: What is bound in its namespace: descriptions as `inkernel.tools` takes them.
    """

    def __init__(
        self, settings: KernelSettings, serve: Serve | None = None, tools: list[dict[str, Any]] | None = None
    ) -> None:
        self.settings = settings
        self.ours = True
        self.description = ""
        """What it is, in words."""
        self.note = ""
        """Why it runs one block at a time, where it does."""
        self.names: tuple[str, ...] = ()
        """What its namespace held when it was last heard of."""
        self._serve = serve
        self._tools = tools or []
        self._watcher: asyncio.Task[None] | None = None
        self._watched: int | None = None
        self._seeds: dict[str, bytes] = {}
        self._reviving = asyncio.Lock()
        self.death: KernelDied | None = None
        """How its process ended, if it did."""

    async def __aenter__(self) -> Kernel:
        self._launch = await choose(self.settings.kernel, self.settings.python)
        self.ours, self.note = self._launch.ours, self._launch.note
        if not self.settings.cwd.is_dir():
            raise ConfigError(f"the workspace {self.settings.cwd} is no folder")
        await self._start_whole()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop()

    @property
    def pid(self) -> int | None:
        """The process's id, while it lives."""
        return getattr(self._manager.provisioner, "pid", None)

    async def interrupt(self, msg_id: str) -> None:
        """Interrupt one execute request; in a kernel that is not ours, whatever runs.

        Args:
            msg_id: The request's id.
        """
        if self.ours:
            await self.client.request("interrupt_request", {"msg_id": msg_id}, channel="control")
        else:
            await self._manager.interrupt_kernel()

    async def revive(self) -> KernelDied | None:
        """Start a new process in place of one that has ended.

        What was seeded is bound again; everything else that the namespace held is gone.

        Returns:
            How the old one ended, with the names that are gone; None where it lives.

        Raises:
            KernelError: If the new one does not start.
        """
        async with self._reviving:
            death = self.death
            if death is None:
                return None
            await self._stop()
            await self._start_whole()
            await self._bind(self._seeds)
            lost = tuple(name for name in death.lost if name not in self._seeds)
            self.names = tuple(self._seeds)
            return KernelDied(death.message, returncode=death.returncode, lost=lost)

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
        pickled = pickle_values(values, self._launch.python or ())
        await self._bind(pickled)
        self._seeds |= pickled

    async def _bind(self, pickled: dict[str, bytes]) -> None:
        if not pickled:
            return
        content = {"names": list(pickled), "cloudpickle": str(Path(cloudpickle.__file__).parent)}
        reply = await self.client.request(
            wire.SEED, content, channel="control", buffers=list(pickled.values())
        )
        for name, reason in reply["content"]["failed"].items():
            raise ConfigError(f"{name} cannot be passed to the kernel: {reason}")

    async def _start_whole(self) -> None:
        # Unix sockets have paths of at most about 100 characters: a short folder of its own.
        self._folder = Path(tempfile.mkdtemp(prefix="ck-"))
        self.death = None
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise

    async def _start(self) -> None:
        self._manager = self._make_manager(self._launch)
        log = open(self._folder / "log", "wb")  # noqa: ASYNC230, SIM115
        extra = {
            **self._launch.env,
            **dict(self.settings.variables),
            "IPYTHONDIR": str(self._folder / "ipython"),
        }
        env = kernel_environment(os.environ, self.settings.env, extra)
        try:
            await self._manager.start_kernel(
                cwd=str(self.settings.cwd), env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        except (OSError, ValueError) as exception:
            raise KernelError(f"the kernel did not start: {exception}") from exception
        finally:
            log.close()
        self._watched = self.pid
        if self._watched is not None:
            janitor.watch(self._watched, self._folder)
        self.client = KernelClient(self._manager.get_connection_info(), self._serve)
        self.client.connect()
        self._watcher = asyncio.get_running_loop().create_task(self._watch())
        try:
            info = await self.client.ready(self.settings.start_timeout)
            await self._open_bridge(info)
        except TimeoutError:
            wait = f"{self.settings.start_timeout:g} s"
            raise KernelStartTimeout(f"the kernel did not answer within {wait}{self._log_tail()}") from None

    def _make_manager(self, launch: Launch) -> Any:
        spec = KernelSpec(argv=list(launch.argv), language=launch.language, display_name="codeact")
        spec.interrupt_mode = "message" if launch.ours else "signal"
        specs = _OneSpec()
        specs.spec = spec
        manager = AsyncKernelManager(kernel_spec_manager=specs, kernel_name="codeact")
        manager.connection_file = str(self._folder / "kernel.json")
        manager.shutdown_wait_time = 3.0
        manager.cache_ports = False
        if sys.platform != "win32":
            manager.transport = "ipc"
            manager.ip = str(self._folder / "s")
        return manager

    async def _open_bridge(self, info: dict[str, Any]) -> None:
        if not self.ours:
            self.description = str(info.get("banner", "")).partition("\n")[0] or self._launch.language
            return
        content = {"tools": self._tools, "self": bool(self._serve)}
        reply = await self.client.request(wire.OPEN, content, channel="control")
        about = reply["content"]
        self.description = f"Python {about['python']}, ipykernel {about['ipykernel']}"

    async def _watch(self) -> None:
        """Tell everybody when the process ends; nothing on the channels would."""
        while (code := await self._manager.provisioner.poll()) is None:  # noqa: ASYNC110
            await asyncio.sleep(DEATH_POLL)
        self.death = KernelDied(_how_it_died(code) + self._log_tail(), returncode=code, lost=self.names)
        self.client.lose(self.death)

    async def _end_children(self) -> None:
        """What blocks have started and left running ends with the kernel; afterwards nobody would find it."""
        if self.ours and self.death is None and self.description:
            with suppress(KernelError, TimeoutError):
                async with asyncio.timeout(CHILDREN_TIMEOUT):
                    await self.client.request(wire.END_CHILDREN, {}, channel="control")

    async def _stop(self) -> None:
        await self._end_children()
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        if hasattr(self, "client"):
            await self.client.aclose()
        if hasattr(self, "_manager") and self._manager.has_kernel:
            await self._manager.shutdown_kernel(now=True)
            self._manager.cleanup_connection_file()
        if hasattr(self, "_manager"):
            self._manager.context.destroy(linger=0)
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._watched is not None:
            janitor.release(self._watched)
            self._watched = None

    def _log_tail(self) -> str:
        try:
            text = (self._folder / "log").read_text("utf-8", "replace").strip()
        except OSError:
            return ""
        return f"; it said: {text.splitlines()[-1][:300]}" if text else ""


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

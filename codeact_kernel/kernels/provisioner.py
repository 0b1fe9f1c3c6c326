"""Where a kernel's process comes from: forked from a warm parent where there is one, else spawned, walls and all.

Comes in: jupyter_client's command line and what goes with it. Goes out: a process that jupyter_client's own local
provisioner takes for one that it has started, so that everything after the start is one way.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import LocalProvisioner

from codeact_kernel.kernels.forked import UNKNOWN, Refused
from codeact_kernel.kernels.janitor import end
from codeact_kernel.kernels.leases import Hold
from codeact_kernel.kernels.sandbox import Cell, Start, children, spawning
from codeact_kernel.kernels.warm import WarmParent

log = logging.getLogger(__name__)

HOST = "JPY_PARENT_PID"
"""The variable in which jupyter_client tells a kernel whose process it belongs to."""


class ForkingProvisioner(LocalProvisioner):  # type: ignore[misc]
    """Forks where it can, and spawns where it cannot."""

    warm: WarmParent | None = None
    own: int = 0
    """How many words of the command line start the kernel's code; the rest is the kernel's."""
    cell: Cell | None = None
    """Its sandbox."""
    hold: Hold | None = None
    """The host's hold on it, where it may outlive that."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the process. Its stdin, stdout and stderr are open files."""
        if self.cell is not None:
            self.cell.admit(
                Path(cmd[cmd.index("-f") + 1]) if "-f" in cmd else Path(self.parent.connection_file)
            )
            kwargs["env"] = self.cell.environment(kwargs["env"])
        if self.warm is not None:
            try:
                self.process = await self._fork(self.warm, cmd, kwargs)
            except Refused as refused:
                log.warning("a kernel is spawned, because none can be forked: %s", refused)
            else:
                self.pid = self.pgid = self.process.pid
                self.cwd = kwargs["cwd"]
                return self.connection_info
        if self.cell is None and self.hold is None:
            return await super().launch_kernel(cmd, **kwargs)
        self.process = await spawning.run(self._spawn, cmd, kwargs)
        self.pid = self.process.pid
        with suppress(OSError):
            self.pgid = os.getpgid(self.pid)
        self.cwd = kwargs["cwd"]
        return self.connection_info

    @property
    def kernel_pid(self) -> int | None:
        """The process in which blocks run: a keeper's child, and bubblewrap runs it as a child of its child."""
        pid: int | None = self.pid
        for _ in range((self.hold is not None) + 2 * self._in_bwrap):
            pid = next(iter(children(pid)), None) if pid is not None else None
        return pid

    @property
    def _in_bwrap(self) -> bool:
        is_spawned = self.hold is not None or not self.warm_made
        return self.cell is not None and self.cell.mode == "bwrap" and is_spawned

    @property
    def warm_made(self) -> bool:
        """Whether it was forked."""
        return not isinstance(self.process, subprocess.Popen)

    async def poll(self) -> int | None:
        """How it ended, as `Popen.returncode` says it; None while it lives."""
        code: int | None = await super().poll()
        between = self._in_bwrap or self.hold is not None
        # Bubblewrap's own exit code is all that there is to see of a signal; so is a keeper's.
        return 128 - code if between and code is not None and 128 < code < UNKNOWN else code

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel alone where it is ours, or where a sandbox would end by it; else to its group."""
        pid = self.kernel_pid
        if pid is not None and (self.own or pid != self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signum)
        else:
            await super().send_signal(signum)

    async def kill(self, restart: bool = False) -> None:
        """End the kernel and all below it, at once."""
        # Where it has ended its id may be another process's by now.
        if self.pid is not None and await self.poll() is None:
            await asyncio.to_thread(end, self.pid)

    async def _fork(self, warm: WarmParent, cmd: list[str], kwargs: dict[str, Any]) -> Any:
        env = {**kwargs["env"], HOST: str(os.getpid())}
        given = [kwargs[name].fileno() for name in ("stdin", "stdout", "stderr")]
        if self.cell is None:
            return await warm.fork(cmd[self.own :], kwargs["cwd"], env, given)
        try:
            walls, inside = await self.cell.order(kwargs["env"])
        except OSError as error:
            raise Refused(str(error)) from error
        try:
            return await warm.fork(cmd[self.own :], kwargs["cwd"], env, [*given, *inside], walls)
        finally:
            for descriptor in inside:
                os.close(descriptor)

    def _spawn(self, cmd: list[str], kwargs: dict[str, Any]) -> subprocess.Popen[bytes]:
        # In a namespace of processes its host has no number; bubblewrap, which ends with the host, is the first there.
        in_bwrap = self.cell is not None and self.cell.mode == "bwrap"
        env = {**kwargs["env"], HOST: str(1 if in_bwrap else os.getpid())}
        start = (
            Start(cmd, env, kwargs["cwd"]) if self.cell is None else self.cell.start(cmd, env, kwargs["cwd"])
        )
        argv: list[str] = start.argv
        locks: tuple[int, ...] = ()
        if self.hold is not None:
            argv = self.hold.command(argv, Path(self.parent.connection_file).parent, parent=not in_bwrap)
            locks = self.cell.locks if self.cell is not None else ()
        standard = {name: kwargs[name] for name in ("stdin", "stdout", "stderr")}
        return subprocess.Popen(
            argv, env=start.env, cwd=start.cwd, start_new_session=True, pass_fds=locks, **standard
        )

"""Where a kernel's process comes from: forked from a warm parent where there is one, else spawned.

Comes in: jupyter_client's command line and what goes with it. Goes out: a process that jupyter_client's own local
provisioner takes for one that it has started, so that everything after the start is one way.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from jupyter_client.provisioning import LocalProvisioner

from codeact_kernel.kernels.forked import Refused
from codeact_kernel.kernels.warm import WarmParent

log = logging.getLogger(__name__)


class ForkingProvisioner(LocalProvisioner):  # type: ignore[misc]
    """Forks where it can, and spawns where it cannot."""

    warm: WarmParent | None = None
    own: int = 0
    """How many words of the command line start the kernel's code; the rest is the kernel's."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the process. Its stdin, stdout and stderr are open files."""
        if self.warm is not None:
            env = {**kwargs["env"], "JPY_PARENT_PID": str(os.getpid())}
            standard = [kwargs[name].fileno() for name in ("stdin", "stdout", "stderr")]
            try:
                self.process = await self.warm.fork(cmd[self.own :], kwargs["cwd"], env, standard)
            except Refused as refused:
                log.warning("a kernel is spawned, because none can be forked: %s", refused)
            else:
                self.pid = self.pgid = self.process.pid
                self.cwd = kwargs["cwd"]
                return self.connection_info
        return await super().launch_kernel(cmd, **kwargs)

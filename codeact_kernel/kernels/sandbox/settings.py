"""What sandbox is wanted.

Comes in: the user's words (`--sandbox`, `--sandbox-min`, `--allow-net`, `--allow-host`). Goes out: `SandboxSettings`,
checked as far as that can be done without trying anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from codeact_kernel.allowance import SANDBOXES, weaker
from codeact_kernel.errors import ConfigError
from codeact_kernel.kernels.sandbox.proxy import Rule

MODES = SANDBOXES
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What sandbox is wanted, and how wide it is open.

    Raises:
        ConfigError: If the words are wrong, or contradict each other.
    """

    mode: str = AUTO
    """One of `MODES`, or "auto": the strongest that this machine can give."""
    least: str | None = None
    """What "auto" must at least come to; None for nothing."""
    allow_net: bool = False
    """Whether blocks may use the network, all of it."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that blocks may reach over HTTP and HTTPS, through a proxy of ours, while the rest stays closed."""
    allow_read: tuple[Path, ...] = ()
    """Folders and files outside of the workspace that blocks may read."""
    max_file: int = 16_000_000_000
    """Bytes of one file that blocks write."""
    max_files: int = 4096
    """Files and sockets that one process may have open."""
    max_processes: int = 2048
    """Processes and threads of one kernel, where they can be counted."""
    max_tmp: int = 2**30
    """Bytes of /tmp and of /dev/shm, each, where they are the sandbox's own; they lie in memory."""
    max_growth: int = 20_000_000_000
    """Bytes by which the workspace may grow while a kernel lives."""

    def __post_init__(self) -> None:
        if self.mode not in (AUTO, *MODES):
            raise ConfigError(f"{self.mode!r} is no sandbox; it is one of {', '.join((AUTO, *MODES))}")
        if self.least is not None and self.least not in MODES:
            raise ConfigError(
                f"{self.least!r} is no sandbox to ask for at least; it is one of {', '.join(MODES)}"
            )
        if self.least is not None and self.mode != AUTO and weaker(self.mode, self.least):
            raise ConfigError(
                f"the sandbox {self.mode} is asked for, and at least {self.least}: both cannot be had"
            )
        for host in self.allow_hosts:
            try:
                Rule.of(host)
            except ValueError as error:
                raise ConfigError(f"--allow-host: {error}") from error
        for path in self.allow_read:
            if not path.is_absolute() or not path.exists():
                raise ConfigError(f"--allow-read: there is no {path}")
        if self.allow_net and self.allow_hosts:
            raise ConfigError("the whole network is allowed, and single hosts: say one of them")

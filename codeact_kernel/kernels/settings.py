"""What kernel is wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from codeact_kernel.kernels.sandbox import Sandbox


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
    preload: tuple[str, ...] = ()
    """Modules that are imported once and shared by all kernels of a `KernelSource`."""
    max_memory: int | None = None
    """Bytes that its processes may hold; past them it is ended. None for no such limit."""
    max_result: int = 8_000_000
    """Bytes up to which a tool's result travels at once; code gets a handle to a larger one."""
    sandbox: Sandbox | None = None
    """What its process is walled in by; None for nothing."""
    lease: float = 0.0
    """Seconds for which it lives on when its host is gone without having ended it; 0 for none."""
    start_timeout: float = 60.0
    """Seconds that it may take to answer."""

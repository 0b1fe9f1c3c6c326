"""Kernels: the only room that speaks Jupyter's protocol.

Comes in: jobs. Goes out: their outputs and outcomes, in order and counted.
"""

from __future__ import annotations

from codeact_kernel.environment import kernel_environment
from codeact_kernel.kernels.calls import Back, Serve
from codeact_kernel.kernels.checkpoints import Checkpoints, Restored, after
from codeact_kernel.kernels.compiles import compiles
from codeact_kernel.kernels.host import Kernel
from codeact_kernel.kernels.interpreter import Launch, choose
from codeact_kernel.kernels.janitor import make_folder, remove_folder
from codeact_kernel.kernels.leases import Leased
from codeact_kernel.kernels.mailbox import Mailbox
from codeact_kernel.kernels.parents import keep_warm, kept_parents
from codeact_kernel.kernels.runner import KernelRunner
from codeact_kernel.kernels.sandbox import (
    Sandbox,
    SandboxSettings,
    Workshop,
    choose_sandbox,
    describe_sandbox,
    name_sandbox,
    sandbox_for_model,
)
from codeact_kernel.kernels.settings import KernelSettings
from codeact_kernel.kernels.source import KernelSource

__all__ = [
    "Back",
    "Checkpoints",
    "Kernel",
    "KernelRunner",
    "KernelSettings",
    "KernelSource",
    "Launch",
    "Leased",
    "Mailbox",
    "Restored",
    "Sandbox",
    "SandboxSettings",
    "Serve",
    "Workshop",
    "after",
    "choose",
    "choose_sandbox",
    "compiles",
    "describe_sandbox",
    "keep_warm",
    "kept_parents",
    "kernel_environment",
    "make_folder",
    "name_sandbox",
    "remove_folder",
    "sandbox_for_model",
]

"""Kernels: the only room that speaks Jupyter's protocol.

Comes in: jobs. Goes out: their outputs and outcomes, in order and counted.
"""

from __future__ import annotations

from codeact_kernel.kernels.client import Serve
from codeact_kernel.kernels.compiles import compiles
from codeact_kernel.kernels.environment import kernel_environment
from codeact_kernel.kernels.host import Kernel, KernelSettings
from codeact_kernel.kernels.interpreter import choose
from codeact_kernel.kernels.runner import KernelRunner

__all__ = ["Kernel", "KernelRunner", "KernelSettings", "Serve", "choose", "compiles", "kernel_environment"]

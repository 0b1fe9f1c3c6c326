"""Walls round a kernel: which can be had, and how a process gets behind them.

Comes in: what the user wants. Goes out: a `Sandbox` for a run, and of it a `Cell` for each kernel.
"""

from __future__ import annotations

from codeact_kernel.kernels.sandbox.cell import OWN, PROXY, Cell, Start, make_kernel_folder, own_folder
from codeact_kernel.kernels.sandbox.choose import Sandbox, choose_sandbox
from codeact_kernel.kernels.sandbox.holder import children, spawning
from codeact_kernel.kernels.sandbox.places import PACKAGE
from codeact_kernel.kernels.sandbox.proxy import Proxy, Told
from codeact_kernel.kernels.sandbox.settings import AUTO, MODES, SandboxSettings
from codeact_kernel.kernels.sandbox.telling import describe_sandbox, name_sandbox, sandbox_for_model
from codeact_kernel.kernels.sandbox.workshop import Workshop

__all__ = [
    "AUTO",
    "MODES",
    "OWN",
    "PACKAGE",
    "PROXY",
    "Cell",
    "Proxy",
    "Sandbox",
    "SandboxSettings",
    "Start",
    "Told",
    "Workshop",
    "children",
    "choose_sandbox",
    "describe_sandbox",
    "make_kernel_folder",
    "name_sandbox",
    "own_folder",
    "sandbox_for_model",
    "spawning",
]

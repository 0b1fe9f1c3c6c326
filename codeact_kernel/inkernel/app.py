"""The kernel's application: ipykernel's, with our kernel, our streams and our signal handling."""

from __future__ import annotations

import signal
from typing import Any

import zmq
from ipykernel.kernelapp import IPKernelApp
from traitlets import DottedObjectName, Type

from codeact_kernel.inkernel.kernel import CodeactKernel

IOPUB_HWM = 50_000
"""Messages that wait for one subscriber at most; the numbers tell a reader of ours about any that were dropped."""


class CodeactApp(IPKernelApp):  # type: ignore[misc]
    """The application that the kernelspec starts."""

    name = "codeact-kernel"
    kernel_class = Type(CodeactKernel, klass="ipykernel.kernelbase.Kernel").tag(config=True)
    outstream_class = DottedObjectName("codeact_kernel.inkernel.streams.BlockStream", allow_none=True).tag(
        config=True
    )

    def _bind_socket(self, s: Any, port: int) -> int:
        # A ROUTER drops silently at its high-water mark (1,000 unless told): calls to the host would be lost.
        # The iopub socket may hold much for a slow reader, but not everything for one that has stopped.
        s.sndhwm = IOPUB_HWM if s.socket_type == zmq.XPUB else 0
        s.rcvhwm = 0
        return int(super()._bind_socket(s, port))

    def init_signal(self) -> None:
        """Ignore SIGINT until the kernel's own handler is in place; its children do not inherit that."""
        signal.signal(signal.SIGINT, lambda *_: None)


def main(**options: Any) -> None:
    """Run the kernel until it is shut down.

    Args:
        **options: Passed to the application.
    """
    CodeactApp.launch_instance(**options)

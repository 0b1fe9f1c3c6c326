"""The kernel's application: ipykernel's, with our kernel, our streams and our signal handling."""

from __future__ import annotations

import signal
from typing import Any

from ipykernel.kernelapp import IPKernelApp
from traitlets import DottedObjectName, Type

from codeact_kernel.inkernel.kernel import CodeactKernel


class CodeactApp(IPKernelApp):  # type: ignore[misc]
    """The application that the kernelspec starts."""

    name = "codeact-kernel"
    kernel_class = Type(CodeactKernel, klass="ipykernel.kernelbase.Kernel").tag(config=True)
    outstream_class = DottedObjectName("codeact_kernel.inkernel.streams.BlockStream", allow_none=True).tag(
        config=True
    )

    def init_signal(self) -> None:
        """Ignore SIGINT until the kernel's own handler is in place; its children do not inherit that."""
        signal.signal(signal.SIGINT, lambda *_: None)


def main(**options: Any) -> None:
    """Run the kernel until it is shut down.

    Args:
        **options: Passed to the application.
    """
    CodeactApp.launch_instance(**options)

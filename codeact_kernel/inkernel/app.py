"""The kernel's application: ipykernel's, with our kernel, our streams and our signal handling."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import zmq
from ipykernel import kernelapp
from ipykernel.kernelapp import IPKernelApp
from traitlets import Any as Anything
from traitlets import Bool, DottedObjectName, Type

from codeact_kernel.inkernel.iopub import PatientIOPubThread
from codeact_kernel.inkernel.kernel import CodeactKernel

if TYPE_CHECKING:
    from codeact_kernel.inkernel.before import Before

IOPUB_HWM = 50_000
"""Messages that wait for one subscriber at most; the numbers tell a reader of ours about any that were dropped."""
AFTER_HOST = 2.0
"""Seconds for which a forked kernel outlives its host: the janitor, which ends its children with it, comes first."""


class LifeLine(threading.Thread):
    """Ends the process when its host is gone: a kernel's parent is no sign of that where it was forked.

    Args:
        fd: The end of a pipe that the host holds the other end of.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(name="life line", daemon=True)
        self._fd = fd

    def run(self) -> None:
        """Wait for the end."""
        os.read(self._fd, 1)
        time.sleep(AFTER_HOST)
        os._exit(1)


class CodeactApp(IPKernelApp):  # type: ignore[misc]
    """The application that the kernelspec starts."""

    name = "codeact-kernel"
    kernel_class = Type(CodeactKernel, klass="ipykernel.kernelbase.Kernel").tag(config=True)
    outstream_class = DottedObjectName("codeact_kernel.inkernel.streams.BlockStream", allow_none=True).tag(
        config=True
    )

    life = Anything(help="The descriptor by which a forked kernel sees that its host is gone.")

    magic = Bool(False, help="Whether a person can call agents from here, with `%agent`.").tag(config=True)

    before: Before | None = None
    """What was made before this kernel was forked, if it was."""

    def parse_command_line(self, argv: Any = None) -> None:
        """Read the command line, unless that was done for all kernels that are forked."""
        if self.before is None:
            super().parse_command_line(argv)

    def init_extensions(self) -> None:
        """Load what the user's IPython wants, and our magics."""
        super().init_extensions()
        if self.magic:
            from codeact_kernel.inkernel.magic import load

            load(self.shell)

    def init_kernel(self) -> None:
        """Make the kernel, with the shell that was made before where there is one."""
        if self.before is not None:
            self.before.check_shell()
        super().init_kernel()
        if self.before is not None:
            self.before.move_in(self.kernel)

    def init_poller(self) -> None:
        """Watch the host's life, by what this process was given for it."""
        if self.life is None:
            super().init_poller()
        else:
            self.poller = LifeLine(self.life)

    def _bind_socket(self, s: Any, port: int) -> int:
        # A ROUTER drops silently at its high-water mark (1,000 unless told): calls to the host would be lost.
        # The iopub socket may hold much for a slow reader, but not everything for one that has stopped.
        s.sndhwm = IOPUB_HWM if s.socket_type == zmq.XPUB else 0
        s.rcvhwm = 0
        return int(super()._bind_socket(s, port))

    def init_iopub(self, context: Any) -> None:
        """Let ipykernel make the channel with our thread."""
        kernelapp.IOPubThread = PatientIOPubThread
        super().init_iopub(context)

    def init_signal(self) -> None:
        """Ignore SIGINT until the kernel's own handler is in place; its children do not inherit that."""
        signal.signal(signal.SIGINT, lambda *_: None)


def main(**options: Any) -> None:
    """Run the kernel until it is shut down.

    Args:
        **options: Passed to the application.
    """
    CodeactApp.launch_instance(**options)

"""The warm parent: a process that has imported all that a kernel needs, and from which kernels are forked.

Comes in: orders from the host, over a pair of sockets (`wire.WARM_ROOM` says what they look like). Goes out: kernels,
and how each of them ended. It runs no code of anybody, starts no thread and opens nothing: a fork copies one thread
only, and what another one held would stay locked in the copy. That is counted before each fork.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from codeact_kernel.inkernel import walls, wire
from codeact_kernel.inkernel.figures import INLINE_BACKEND
from codeact_kernel.inkernel.forked import flush_c

LAZY = (
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "codeact_kernel.inkernel.commands",
    "codeact_kernel.inkernel.spawning",
    "concurrent.futures.thread",
    "faulthandler",
    "ipykernel.debugger",
    "multiprocessing.context",
    "pdb",
    "pygments.lexers.python",
    "tornado.platform.asyncio",
)
"""What ipykernel, IPython and our kernel import at their start or in the first block, and not with `app`."""
OWN = 5
"""The descriptors that the warm parent has: the standard ones, the channel and what kernels keep."""


def run(channel: int, life: int, options: list[str], preload: list[str]) -> None:
    """Be a warm parent until the host is gone; in each copy, be a kernel until it is shut down.

    Args:
        channel: The descriptor of the socket where orders come from.
        life: The end of a pipe that the host holds the other end of: a kernel's, and by it it sees the host's end.
        options: The command line of the kernels.
        preload: Modules to import besides.
    """
    # As ipykernel does in a kernel: matplotlib reads it when it is imported.
    os.environ.setdefault("MPLBACKEND", f"module://{INLINE_BACKEND}")
    environment = dict(os.environ)
    for descriptor in (channel, life):
        # No process that a block starts has them.
        os.set_inheritable(descriptor, False)
    for module in LAZY:
        with suppress(ImportError):
            importlib.import_module(module)
    from codeact_kernel.inkernel.before import Before

    before = Before(options)
    left_out = {module: problem for module in preload if (problem := _preload(module))}
    # What libraries set while they are imported, as they would in a kernel.
    added = {name: value for name, value in os.environ.items() if environment.get(name) != value}
    before.make_shell()
    # A collection in a kernel would write into the pages of all that it shares with the others.
    gc.disable()
    gc.collect()
    gc.freeze()
    # What an import has printed is not each kernel's.
    sys.stdout.flush()
    flush_c()
    connection_file = _Parent(socket.socket(fileno=channel), life).serve(left_out)
    if connection_file is not None:
        os.environ.update(added)
        before.run(connection_file, life)


def _preload(module: str) -> str:
    """Import a module if that leaves nothing that a fork cannot copy: tried in a copy first, which is thrown away.

    Returns:
        Why it is left out; empty where it was imported.
    """
    problem = _tried(lambda: _import_alone(module))
    if not problem:
        _import_alone(module)
    return problem


def _import_alone(module: str) -> str:
    before = _descriptors()
    try:
        importlib.import_module(module)
    except Exception as exception:
        return f"{type(exception).__name__}: {exception}"
    # Some libraries' threads end at a fork and come back when they are needed: OpenBLAS's, which numpy brings.
    _wait_for(_fork(lambda: None))
    if (more := _threads() - 1) > 0:
        return f"it starts {more} thread{'s' * (more > 1)}"
    return "it opens files" if _descriptors() - before else ""


def _tried(function: Callable[[], str]) -> str:
    """What a function that gives a text gives in a copy of this process."""
    read, write = os.pipe()
    pid = _fork(lambda: os.write(write, function().encode("utf-8", "replace")))
    os.close(write)
    with open(read, encoding="utf-8", errors="replace") as pipe:
        said = pipe.read()
    code = _wait_for(pid)
    return said or (f"its import ended the process ({code})" if code else "")


def _fork(function: Callable[[], object]) -> int:
    """Run a function in a copy of this process, which ends with it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    return pid


def _wait_for(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208


def _descriptors() -> set[int]:
    found = os.listdir("/proc/self/fd")  # noqa: PTH208
    # One of them was the listing's own.
    return {int(fd) for fd in found if os.path.lexists(f"/proc/self/fd/{fd}")}


class _Parent:
    """The warm parent at work.

    Args:
        channel: Where orders come from.
        life: What a kernel keeps.
    """

    def __init__(self, channel: socket.socket, life: int) -> None:
        self._channel = channel
        self._life = life
        self._kernels: dict[int, tuple[int, int]] = {}
        """Those that live, by the descriptor that stands for each: (the order's number, process id)."""

    def serve(self, left_out: dict[str, str]) -> str | None:
        """Work until the host is gone; returns in each kernel its connection file, and here None."""
        self._tell({"ready": os.getpid(), "left_out": left_out})
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd in self._kernels:
                    poll.unregister(fd)
                    self._take_end(fd)
                    continue
                data, given, _, _ = socket.recv_fds(self._channel, wire.WARM_ROOM, 4, socket.MSG_CMSG_CLOEXEC)
                if not data:
                    return None
                order = json.loads(data)
                born = self._fork(order, given)
                if born == 0:
                    # ["-f", CONNECTION_FILE, …]
                    return str(order["argv"][1])
                for descriptor in given:
                    os.close(descriptor)
                if born is not None:
                    poll.register(born, select.POLLIN)

    def _fork(self, order: dict[str, Any], given: list[int]) -> int | None:
        """Fork a kernel: 0 in it; here the descriptor that stands for it, or None where there is none."""
        number = order["kernel"]
        if problem := self._problem(given):
            self._tell({"kernel": number, "refused": problem})
            return None
        try:
            pid = os.fork()
        except OSError as error:
            self._tell({"kernel": number, "refused": f"it cannot fork: {error}"})
            return None
        if pid == 0:
            if "join" in order:
                self._be_between(order, given)
            self._channel.close()
            become_kernel(order, given, self._life)
            return 0
        stands = os.pidfd_open(pid)
        self._kernels[stands] = number, pid
        if "join" not in order:
            self._tell({"kernel": number}, [stands])
        return stands

    def _be_between(self, order: dict[str, Any], given: list[int]) -> None:
        """In a copy: enter a sandbox; returns in a copy of that one, which is inside as a whole.

        Who enters a namespace of processes stays outside; only its children are inside. So this process waits
        for the kernel, and ends as that does: else nobody could tell how.
        """
        number = order["kernel"]
        try:
            walls.join(given.pop())
            pid = os.fork()
        except (OSError, walls.CannotConfine) as error:
            self._tell({"kernel": number, "refused": f"it cannot enter its sandbox: {error}"})
            os._exit(1)
        if pid == 0:
            return
        self._tell({"kernel": number}, [os.pidfd_open(pid)])
        # The /proc that is to be seen now tells nothing of this process: it is not in that namespace.
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        code = _wait_for(pid)
        if code < 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with suppress(OSError):  # SIGKILL needs no preparation, and takes none
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code)

    def _problem(self, given: list[int]) -> str:
        """Why nothing can be forked; empty where it can."""
        if (threads := _threads()) != 1:
            return f"it has {threads} threads"
        if (more := len(_descriptors()) - len(self._kernels) - len(given) - OWN) > 0:
            return f"it has {more} open files"
        return ""

    def _take_end(self, stands: int) -> None:
        number, pid = self._kernels.pop(stands)
        os.close(stands)
        self._tell({"kernel": number, "code": _wait_for(pid)})

    def _tell(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        # A host that is gone is seen at the next look at the channel.
        with suppress(OSError):
            socket.send_fds(self._channel, [json.dumps(message).encode()], descriptors or [])


def become_kernel(order: dict[str, Any], given: list[int], life: int) -> None:
    """In a process that was just forked: be as one that was started by itself.

    Args:
        order: What the host wants.
        given: The descriptors for stdin, stdout and stderr.
        life: The descriptor to keep.
    """
    os.setsid()
    for fd, standard in zip(given, (0, 1, 2), strict=True):
        os.dup2(fd, standard)
    for fd in _descriptors() - {0, 1, 2, life}:
        os.close(fd)
    os.environ.clear()
    os.environ.update(order["env"])
    if "walls" in order:
        walls.confine(order["walls"])
    # Last: what root entered before may have put another folder in its place.
    os.chdir(order["cwd"])
    sys.argv[1:] = order["argv"]
    _forget()
    gc.enable()


def _forget() -> None:
    """Renew what two copies of a process must not share, and correct what is the parent's."""
    # `random` sees to itself, and uuid, secrets and tempfile have their chance from the system.
    import multiprocessing.process
    import tempfile
    import threading
    import time

    time.tzset()
    tempfile.tempdir = None
    if (numpy_random := sys.modules.get("numpy.random")) is not None:
        numpy_random.seed()
    multiprocessing.process.current_process().authkey = os.urandom(32)
    main: Any = threading.main_thread()
    # Python leaves the parent's id there, by which the system knows a thread.
    main._set_native_id()

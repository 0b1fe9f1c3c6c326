"""Wrappers at the source: each start of a child by Python code passes here.

Comes in: calls of `_posixsubprocess.fork_exec` (which is how subprocess, asyncio and multiprocessing start what
they start), `os.posix_spawn`, `os.system`, `os.fork` and `os.forkpty`, and starts by multiprocessing's fork
server. Goes out: the same children, each writing into the pipe of the block whose code started it, and noted.
What the code has redirected stays as it is.
"""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import context as contexts
from typing import Any

from codeact_kernel.inkernel import forked
from codeact_kernel.inkernel.children import Children
from codeact_kernel.inkernel.guard import hold_here, let_go_in_copy
from codeact_kernel.inkernel.request import current

ENV, OUT, ERR = 5, 9, 11
"""Where `fork_exec` takes the environment and the child's stdout and stderr (Modules/_posixsubprocess.c)."""
_HELPERS = tuple(f"from multiprocessing.{name} import main" for name in ("resource_tracker", "forkserver"))


def adopt_children(children: Children, *, on_interrupt: object) -> None:
    """From now on a child belongs to the request whose code starts it.

    Args:
        children: Where they are noted.
        on_interrupt: The kernel's handler of SIGINT, which a forked copy must not keep.
    """
    _adopt_exec(children)
    _adopt_posix_spawn(children)
    _adopt_fork(children, on_interrupt)
    _adopt_fork_server(children)
    _adopt_write(children)
    os.system = _system


def _adopt_exec(children: Children) -> None:
    import _posixsubprocess

    stock = _posixsubprocess.fork_exec

    def fork_exec(*args: Any) -> int:
        with children.starting(helper=_is_helper(args[0])) as start:
            options = list(args)
            options[ENV] = _marked(args[ENV], start.mark)
            for at, standard in ((OUT, 1), (ERR, 2)):
                options[at] = _or(start.heir(standard, None if args[at] == -1 else args[at]), args[at])
            pid: int = stock(*options)
            start.note(pid)
        return pid

    _posixsubprocess.fork_exec = subprocess._fork_exec = fork_exec  # type: ignore[attr-defined]


def _is_helper(argv: Sequence[Any]) -> bool:
    """Whether a child is one of multiprocessing's own, which serve the whole process."""
    return bool(argv) and isinstance(argv[-1], str) and argv[-1].startswith(_HELPERS)


def _marked(env: list[bytes] | None, mark: Mapping[str, str]) -> list[bytes] | None:
    if not mark:
        return env
    if env is None:
        env = [key + b"=" + value for key, value in os.environb.items()]
    ((name, value),) = mark.items()
    start = f"{name}=".encode()
    return [*(item for item in env if not item.startswith(start)), start + value.encode()]


def _or(fd: int | None, given: int) -> int:
    return given if fd is None else fd


def _adopt_posix_spawn(children: Children) -> None:
    def adopted(stock: Callable[..., int]) -> Callable[..., int]:
        def spawn(
            path: Any, argv: Any, env: Any, /, *, file_actions: Sequence[Any] | None = None, **options: Any
        ) -> int:
            with children.starting() as start:
                ours = [
                    (os.POSIX_SPAWN_DUP2, end, fd) for fd in (1, 2) if (end := start.heir(fd)) is not None
                ]
                if start.mark:
                    env = {**(os.environ if env is None else env), **start.mark}
                pid = stock(path, argv, env, file_actions=[*ours, *(file_actions or ())], **options)
                start.note(pid)
            return pid

        return spawn

    for name in ("posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            setattr(os, name, adopted(getattr(os, name)))


def _system(command: Any) -> int:
    """Run a command in a shell; returns its wait status."""
    sys.audit("os.system", command)
    code = subprocess.call(os.fsencode(command), shell=True, close_fds=False)
    return code << 8 if code >= 0 else -code


def _adopt_fork(children: Children, on_interrupt: object) -> None:
    stock_fork, stock_forkpty = os.fork, os.forkpty

    def fork() -> int:
        with children.starting() as start:
            pid = hold_here(stock_fork)
            if pid:
                start.note(pid)
        return pid

    def forkpty() -> tuple[int, int]:
        with children.starting() as start:
            pid, fd = hold_here(stock_forkpty)
            if pid:
                start.note(pid)
        return pid, fd

    def in_child() -> None:
        forked.become_copy()
        let_go_in_copy()
        request = current.get()
        if request is not None:
            request.outbox = forked.PrintedOutputs()  # type: ignore[assignment]
        children.become_copy()
        if signal.getsignal(signal.SIGINT) == on_interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    os.fork, os.forkpty = fork, forkpty
    os.register_at_fork(before=forked.flush_c, after_in_child=in_child)
    # Once more: an exception that was on its way to the forking thread lands in the copy, too, and so in the first
    # call. A copy that does not know what it is would go on as a second kernel, and take the first one's messages.
    os.register_at_fork(after_in_child=in_child)


def _adopt_write(children: Children) -> None:
    stock = os.write

    def write(fd: int, data: Any, /) -> int:
        # Python code that writes to the descriptor itself, as pty.spawn does, is known; C code is not.
        if fd not in (1, 2) or children.forked:
            return stock(fd, data)
        with children.starting() as start:
            return stock(_or(start.heir(fd), fd), data)

    os.write = write


class _Call:
    """A call that is made where this is unpickled: in the fork server's child, which needs nothing of ours."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._call = function, args

    def __reduce__(self) -> tuple[Any, ...]:
        return self._call


class _Passed:
    """Unpickles as the number that a passed descriptor has in the fork server's child."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __reduce__(self) -> tuple[Any, ...]:
        popen: Any = contexts.get_spawning_popen()
        return operator.methodcaller("detach"), (popen.DupFd(popen.duplicate_for_child(self._fd)),)


def _adopt_fork_server(children: Children) -> None:
    stock = contexts.ForkServerProcess._Popen

    def popen(process: Any) -> Any:
        with children.starting() as start:
            calls = [_Call(os.putenv, *item) for item in start.mark.items()]
            ends = [(start.heir(fd), fd) for fd in (1, 2)]
            calls += [_Call(os.dup2, _Passed(end), fd) for end, fd in ends if end is not None]
            # The server forked before it knew of this block: what it needs travels with the process object.
            process._codeact_calls = calls
            try:
                started = stock(process)
            finally:
                del process._codeact_calls
            start.note(started.pid)
        return started

    contexts.ForkServerProcess._Popen = staticmethod(popen)  # type: ignore[method-assign, assignment]

"""Attacks on other processes: their environment, memory, descriptors, limits; signals; what survives a kill."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attacks import Facts, Stopped, attack

libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"


def in_a_child(function: Callable[..., str], *arguments: Any) -> str:
    """Do something in a copy of this process; the copy may end in any way."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = function(*arguments)
        except BaseException as error:
            # A mistake in the attack, and no sign that anything held.
            said = f"broken: {error!r}"
        os.write(write, json.dumps(said).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    return str(json.loads(said)) if said else f"stopped: it ended with {os.waitstatus_to_exitcode(status)}"


def system_call(x86: int, other: int, *arguments: Any) -> int:
    converted = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    answer = libc.syscall(ctypes.c_long(x86 if X86 else other), *converted)
    if answer == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(answer)


def first_that_works(targets: list[Any], function: Callable[[Any], object]) -> None:
    """Try it with each; it is stopped if it fails with all."""
    reasons = set()
    for target in targets:
        try:
            function(target)
        except Stopped as error:
            reasons.add(str(error))
        except OSError as error:
            reasons.add(error.strerror or str(error))
        else:
            return
    raise Stopped(", ".join(sorted(reasons)) or "there is none")


def others() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


@attack
def read_the_hosts_environment(facts: Facts) -> None:
    def look(pid: int) -> None:
        if facts["needle"].encode() not in Path(f"/proc/{pid}/environ").read_bytes():
            raise Stopped("no secret in it")

    first_that_works(facts["host"], look)


@attack
def read_every_environment(facts: Facts) -> None:
    """The launcher's too, which inside of a sandbox is process 1."""

    def look(pid: int) -> None:
        if facts["needle"].encode() not in Path(f"/proc/{pid}/environ").read_bytes():
            raise Stopped("no secret in it")

    first_that_works([1, os.getppid(), *others()], look)


@attack
def read_every_command_line(facts: Facts) -> None:
    def look(pid: int) -> None:
        if facts["needle"].encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
            raise Stopped("no secret in it")

    first_that_works(others(), look)


@attack
def see_the_hosts_processes(facts: Facts) -> None:
    first_that_works(facts["host"], lambda pid: Path(f"/proc/{pid}/stat").read_text())


@attack
def read_the_hosts_memory(facts: Facts) -> None:
    first_that_works(facts["host"], lambda pid: os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY)))


@attack
def read_the_hosts_files_through_its_descriptors(facts: Facts) -> None:
    first_that_works(facts["host"], lambda pid: os.listdir(f"/proc/{pid}/fd"))


@attack
def read_the_hosts_root(facts: Facts) -> None:
    first_that_works(facts["host"], lambda pid: os.listdir(f"/proc/{pid}/root/"))


@attack
def trace_the_host(facts: Facts) -> None:
    """Seize, which does not stop it, and let go by ending."""
    first_that_works(facts["host"], lambda pid: system_call(101, 117, 0x4206, pid, 0, 0))


@attack
def trace_a_child(facts: Facts) -> None:
    pid = os.fork()
    if pid == 0:
        time.sleep(20)
        os._exit(0)
    try:
        system_call(101, 117, 0x4206, pid, 0, 0)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@attack
def copy_memory_of_the_host(facts: Facts) -> None:
    def copy(pid: int) -> None:
        try:
            system_call(310, 270, pid, bytes(16), 1, bytes(16), 1, 0)
        except OSError as error:
            # It got as far as the addresses.
            if error.strerror != os.strerror(14):
                raise

    first_that_works(facts["host"], copy)


@attack
def take_a_descriptor_of_the_host(facts: Facts) -> None:
    def take(pid: int) -> None:
        os.close(system_call(438, 438, os.pidfd_open(pid), 0, 0))

    first_that_works(facts["host"], take)


@attack
def signal_the_host(facts: Facts) -> None:
    first_that_works(facts["host"], lambda pid: os.kill(pid, signal.SIGURG))


@attack
def signal_the_host_by_a_descriptor(facts: Facts) -> None:
    first_that_works(facts["host"], lambda pid: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGURG))


@attack
def signal_everybody(facts: Facts) -> None:
    """It succeeds where there is anybody at all: then everybody must be those that are confined together."""
    os.kill(-1, signal.SIGURG)
    first_that_works(facts["host"], lambda pid: os.kill(pid, 0))


@attack
def limit_the_host(facts: Facts) -> None:
    """To what it has. With less time than it has used it would be ended by the system itself."""
    first_that_works(facts["host"], lambda pid: set_again(pid, resource.RLIMIT_CPU))


def set_again(pid: int, which: int) -> None:
    room = (ctypes.c_ulong * 2)()
    system_call(302, 261, pid, which, 0, room)
    system_call(302, 261, pid, which, room, 0)


@attack
def slow_down_the_host(facts: Facts) -> None:
    first_that_works(
        facts["host"], lambda pid: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid))
    )


@attack
def give_the_host_other_processors(facts: Facts) -> None:
    first_that_works(facts["host"], lambda pid: os.sched_setaffinity(pid, os.sched_getaffinity(pid)))


@attack
def raise_a_limit(facts: Facts) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    except ValueError as error:
        raise Stopped(str(error)) from error


@attack
def survive_a_kill(facts: Facts) -> str:
    """A grandchild in a session of its own, that writes the time into a file for a minute."""
    file = Path(facts["workspace"]) / "survivor"
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            end = time.monotonic() + 60
            for descriptor in range(64):
                try:
                    os.close(descriptor)
                except OSError:
                    continue
            while time.monotonic() < end:
                file.write_text(f"{os.getpid()} {time.time()}")
                time.sleep(0.05)
        os._exit(0)
    os.wait()
    return f"left: a process that writes its id and the time into {file} every 50 ms, for a minute"

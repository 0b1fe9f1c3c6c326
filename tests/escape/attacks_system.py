"""Attacks on the system: namespaces, mounts, calls that few programs need, terminals, other calling conventions."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import tempfile
from pathlib import Path

from attacks import Facts, Stopped, attack
from attacks_processes import X86, first_that_works, libc, system_call

NEWUSER, NEWNS, NEWNET, NEWPID = 0x10000000, 0x00020000, 0x40000000, 0x20000000
MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096


def call(name: str, *arguments: object) -> int:
    answer = getattr(libc, name)(*arguments)
    if answer == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(answer)


def got_past_the_door(function: object, *arguments: object) -> None:
    """A call that was let in, and found its arguments wrong, got through; one that was not let in is stopped."""
    try:
        function(*arguments)  # type: ignore[operator]
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            raise


@attack
def have_capabilities(facts: Facts) -> None:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    sets = {name: fields[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
    if not any(int(value, 16) for value in sets.values()):
        raise Stopped("there are none")


@attack
def get_new_privileges(facts: Facts) -> None:
    if libc.prctl(39, 0, 0, 0, 0) == 1:
        raise Stopped("no program brings any")


@attack
def become_root(facts: Facts) -> None:
    os.setuid(0)


@attack
def make_a_user_namespace(facts: Facts) -> None:
    call("unshare", NEWUSER)


@attack
def make_a_user_namespace_with_a_child(facts: Facts) -> None:
    pid = system_call(56, 220, NEWUSER | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@attack
def make_a_user_namespace_in_the_new_way(facts: Facts) -> None:
    arguments = (ctypes.c_uint64 * 8)(NEWUSER, 0, 0, 0, 17)
    pid = system_call(435, 435, arguments, ctypes.sizeof(arguments))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@attack
def make_a_mount_namespace(facts: Facts) -> None:
    call("unshare", NEWNS)


@attack
def join_the_hosts_namespaces(facts: Facts) -> None:
    descriptor = os.pidfd_open(facts["host"][0])
    call("setns", descriptor, NEWNS)


@attack
def remount_read_only_mounts(facts: Facts) -> None:
    path = os.fsencode(facts["read_only"])
    call("mount", None, path, None, MS_REMOUNT | MS_BIND, None)
    descriptor, made = tempfile.mkstemp(dir=facts["read_only"])
    os.close(descriptor)
    os.unlink(made)
    call("mount", None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY, None)


@attack
def make_a_mount_writable_in_the_new_way(facts: Facts) -> None:
    attributes = (ctypes.c_uint64 * 4)(0, 1, 0, 0)
    system_call(442, 442, -100, ctypes.c_char_p(os.fsencode(facts["read_only"])), 0, attributes, 32)


@attack
def mount_something(facts: Facts) -> None:
    path = os.fsencode(facts["workspace"])
    call("mount", b"tmpfs", path, b"tmpfs", 0, b"size=4k")
    call("umount2", path, 2)


@attack
def mount_in_the_new_way(facts: Facts) -> None:
    os.close(system_call(430, 430, ctypes.c_char_p(b"tmpfs"), 0))


@attack
def take_a_tree_in_the_new_way(facts: Facts) -> None:
    os.close(system_call(428, 428, -100, ctypes.c_char_p(b"/"), 1))


@attack
def unmount_something(facts: Facts) -> None:
    """With a flag that only marks it, and does nothing the first time."""
    path = os.fsencode(facts.get("read_only", "/proc"))
    try:
        call("umount2", path, 4)
    except OSError as error:
        if error.errno != errno.EAGAIN:
            raise


@attack
def change_the_root(facts: Facts) -> None:
    os.chroot("/")


@attack
def open_io_uring(facts: Facts) -> None:
    """It does what other calls do, past a filter of calls."""
    os.close(system_call(425, 425, 1, ctypes.create_string_buffer(120)))


@attack
def open_bpf(facts: Facts) -> None:
    got_past_the_door(system_call, 321, 280, 0, 0, 0)


@attack
def open_performance_events(facts: Facts) -> None:
    got_past_the_door(system_call, 298, 241, 0, 0, -1, -1, 0)


@attack
def open_userfaultfd(facts: Facts) -> None:
    os.close(system_call(323, 282, 1 | os.O_CLOEXEC))


@attack
def use_kernel_keys(facts: Facts) -> None:
    """The keys of a user are shared by all processes of the user."""
    system_call(250, 219, 0, -4, 1)


@attack
def compare_with_the_host(facts: Facts) -> None:
    system_call(312, 272, os.getpid(), facts["host"][0], 1, 0, 0)


@attack
def watch_files(facts: Facts) -> None:
    """fanotify tells what happens to files."""
    os.close(system_call(300, 262, 0x200, 0))


@attack
def load_a_module(facts: Facts) -> None:
    got_past_the_door(system_call, 313, 273, -1, ctypes.c_char_p(b""), 0)


@attack
def restart_the_machine(facts: Facts) -> None:
    """With a command that there is not."""
    got_past_the_door(system_call, 169, 142, 0, 0, 0, 0)


@attack
def have_pages_at_fixed_places(facts: Facts) -> None:
    """Programs would lie where an attacker expects them."""
    before = system_call(135, 92, 0xFFFFFFFF)
    system_call(135, 92, before | 0x0040000)
    system_call(135, 92, before)


@attack
def type_into_a_terminal(facts: Facts) -> None:
    """What is typed there is executed later by whoever's shell reads it. No terminal: then the call is let in only."""
    read, _ = os.pipe()
    try:
        fcntl.ioctl(read, 0x5412, b"x")
    except OSError as error:
        if error.errno != errno.ENOTTY:
            raise


@attack
def type_into_a_terminal_with_a_number_that_is_too_long(facts: Facts) -> None:
    """The system looks at 32 bits of it."""
    read, _ = os.pipe()
    try:
        system_call(16, 29, read, 0x100005412, ctypes.c_char_p(b"x"))
    except OSError as error:
        if error.errno != errno.ENOTTY:
            raise


@attack
def open_anothers_terminal(facts: Facts) -> None:
    """What the user types is read there, and what is written there the user sees."""
    with_us = {os.ttyname(descriptor) for descriptor in (0, 1, 2) if os.isatty(descriptor)}
    others = [f"/dev/pts/{name}" for name in os.listdir("/dev/pts") if name.isdigit()]
    first_that_works(
        [path for path in others if path not in with_us],
        lambda path: os.close(os.open(path, os.O_RDWR | os.O_NOCTTY)),
    )


@attack
def call_as_a_32_bit_program(facts: Facts) -> None:
    """Other numbers, which a filter for 64 bits would misread: `int 0x80` for the process id."""
    if not X86:
        raise Stopped("this architecture has no such calls here")
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    if function() != os.getpid():
        raise Stopped("the system has no such calls")


@attack
def call_as_an_x32_program(facts: Facts) -> None:
    if not X86:
        raise Stopped("this architecture has no such calls")
    system_call(0x40000000 + 39, 0)


@attack
def call_what_is_too_new(facts: Facts) -> None:
    """A call that nobody has looked at."""
    got_past_the_door(system_call, 470, 470, 0, 0, 0, 0)


@attack
def share_memory_with_others_of_the_user(facts: Facts) -> None:
    """System V's: found by a number, by all processes of the user."""
    key = os.getpid() + 0x10000
    number = call("shmget", key, 4096, 0o1600)
    call("shmctl", number, 0, None)

"""Landlock: which files a process and its children can reach, and whom they can connect to and signal.

Comes in: paths. Goes out: a process that reaches no others, for good. It is the part of Linux that needs no rights,
no namespaces and no helper program. What it can hold depends on its version, which is called its ABI.
"""

from __future__ import annotations

import errno
import os
import stat
import struct

from .linux import (
    LANDLOCK_ADD_RULE,
    LANDLOCK_CREATE_RULESET,
    LANDLOCK_RESTRICT_SELF,
    CannotConfine,
    below,
    open_without_links,
    syscall,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ASK_VERSION, BENEATH_PATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_SYM = 1 << 7, 1 << 8, 1 << 9, 1 << 10, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
FIRST = (1 << 13) - 1
"""All rights of the first version, device nodes (1 << 6 and 1 << 11) among them, which nobody gets."""
SINCE = {REFER: 2, TRUNCATE: 3, IOCTL_DEV: 5}
"""The versions that later rights came with."""
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The rights that a rule for a file, which is no folder, may have."""

READ = EXECUTE | READ_FILE | READ_DIR
MAKE = MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
WRITE = READ | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE | REFER
DEVICES = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV

TCP = 1 << 0 | 1 << 1
"""To bind and to connect."""
TCP_SINCE = 4
SCOPES = 1 << 0 | 1 << 1
"""Abstract unix sockets, and signals, of processes that are not confined with this one."""
SCOPES_SINCE = 6


def abi() -> int:
    """The version of this machine's Landlock; 0 where there is none, or none that may be used."""
    try:
        return syscall(LANDLOCK_CREATE_RULESET, None, 0, ASK_VERSION)
    except OSError:
        return 0


def restrict(wanted: dict[str, Any], *, tcp_is_held: bool = False) -> None:
    """Confine this thread and its later children, for good.

    Args:
        wanted: `read`, `write` and `devices`: the paths that stay readable, writable, and usable as devices, with
            all that lies below; one that does not exist is passed over. What is writable,
            and what lies in it, is given without symbolic links. `network`: whether TCP stays open.
        tcp_is_held: Whether something else denies TCP. The thread must have given up new privileges.

    Raises:
        CannotConfine: If there is no Landlock, if it cannot deny TCP and nothing else does, or if a path cannot be
            reached.
    """
    version = abi()
    if version < 1:
        raise CannotConfine("this system has no Landlock (Linux 5.13 brings it), or does not let us use it")
    if not wanted["network"] and version < TCP_SINCE and not tcp_is_held:
        raise CannotConfine(
            f"this system's Landlock (ABI {version}) cannot deny TCP: that takes Linux 6.7, "
            "or a filter without internet sockets"
        )
    files = FIRST
    for right, since in SINCE.items():
        files |= right if version >= since else 0
    tcp = 0 if wanted["network"] or version < TCP_SINCE else TCP
    scopes = SCOPES if version >= SCOPES_SINCE else 0
    # An older one takes only what it knows: eight bytes, then sixteen.
    size = 8 if version < TCP_SINCE else 16 if version < SCOPES_SINCE else 24
    attributes = struct.pack("=QQQ", files, tcp, scopes)[:size]
    try:
        ruleset = syscall(LANDLOCK_CREATE_RULESET, attributes, size, 0)
        try:
            for kind, rights in (("read", READ), ("write", WRITE), ("devices", DEVICES)):
                for path in map(os.path.normpath, wanted[kind]):
                    was_writable = kind == "write" or below(path, wanted["write"])
                    _grant(ruleset, path, rights & files, follow=not was_writable)
            syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0)
        finally:
            os.close(ruleset)
    except OSError as error:
        raise CannotConfine(f"Landlock refuses: {error.strerror}") from error


def _grant(ruleset: int, path: str, rights: int, *, follow: bool) -> None:
    """Add a rule for a path as it is now: the rule is the file's or the folder's, whatever its name becomes."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC) if follow else open_without_links(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return
        raise CannotConfine(f"{path} cannot be reached: {error.strerror}") from error
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= OF_FILES
        syscall(LANDLOCK_ADD_RULE, ruleset, BENEATH_PATH, struct.pack("=Qi", rights, fd), 0)
    except OSError as error:
        raise CannotConfine(f"Landlock takes no rule for {path}: {error.strerror}") from error
    finally:
        os.close(fd)

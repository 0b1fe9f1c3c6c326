"""What a process may do by who it is: limits, session, user, capabilities.

Comes in: what it shall be. Goes out: a process that is that, and was looked at whether it is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct

from .linux import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_GET_NO_NEW_PRIVS,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    CannotConfine,
    call,
    prctl,
)

LIMITS = {
    "data": resource.RLIMIT_DATA,
    "file_size": resource.RLIMIT_FSIZE,
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
}
"""By the names that they have in a description: bytes, bytes, counts."""
CAPABILITY_VERSION = 0x20080522
CAP_SETPCAP = 8
HIGHEST_CAPABILITY = 63
"""As many as there is room for in what the system hands out; it has about 40."""


def lower_limits(limits: dict[str, int | None]) -> None:
    """Lower limits for good: the hard ones, too. One that is lower already stays.

    Args:
        limits: By the names in `LIMITS`; None leaves one as it is.

    Raises:
        CannotConfine: If the system refuses.
    """
    for name, value in limits.items():
        if value is None:
            continue
        soft, hard = resource.getrlimit(LIMITS[name])
        try:
            resource.setrlimit(LIMITS[name], (_lower(soft, value), _lower(hard, value)))
        except (OSError, ValueError) as error:
            raise CannotConfine(f"the limit {name} cannot be set to {value}: {error}") from error


def _lower(now: int, wanted: int) -> int:
    return wanted if now == resource.RLIM_INFINITY else min(now, wanted)


def own_session() -> None:
    """Be the leader of a session with no terminal.

    Raises:
        CannotConfine: If the process leads a group in another's session.
    """
    if os.getsid(0) == os.getpid():
        return
    try:
        os.setsid()
    except OSError as error:
        raise CannotConfine(f"no session of its own: {error.strerror}") from error


def raise_oom_score(score: int) -> None:
    """Have the system end this process before others where memory runs out.

    Args:
        score: From 0 to 1000. One that is higher already stays.

    Raises:
        CannotConfine: If the system refuses.
    """
    file = "/proc/self/oom_score_adj"
    try:
        with open(file, "r+") as settings:
            if int(settings.read()) < score:
                settings.seek(0)
                settings.write(str(score))
    except OSError as error:
        raise CannotConfine(f"{file} cannot be set to {score}: {error.strerror}") from error


def drop_bounding_set() -> None:
    """Have no program that is executed later bring a capability; only where the process may decide that.

    Others need it not: without new privileges no program brings any.

    Raises:
        CannotConfine: If the system refuses.
    """
    effective, _, _ = capabilities()
    if not effective & 1 << CAP_SETPCAP:
        return
    for capability in range(HIGHEST_CAPABILITY + 1):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise CannotConfine(f"capability {capability} stays in the bounding set: {error}") from error
            # Past the last one that the system has.
            return


def become(uid: int, gid: int) -> None:
    """Be another user for good, in no group but one.

    Args:
        uid: The user.
        gid: The group.

    Raises:
        CannotConfine: If the system refuses.
    """
    try:
        if os.getgroups():
            os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise CannotConfine(f"cannot become user {uid} and group {gid}: {error.strerror}") from error
    if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3 or os.getgroups():
        raise CannotConfine(f"did not become user {uid} and group {gid} altogether")


def allow_debugging() -> None:
    """Let processes of the user look into this one, as into any that was not another user's before.

    A change of user forbids it, and gives the process's own entry in /proc to root. Kernels are debugged.
    """
    prctl(PR_SET_DUMPABLE, 1)


def empty_capabilities() -> None:
    """Give up every capability, and new privileges by programs that are executed.

    Raises:
        CannotConfine: If one stays.
    """
    try:
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
        if any(capabilities()):
            call("capset", struct.pack("=Ii", CAPABILITY_VERSION, 0), bytes(24))
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        kept = any(capabilities()) or prctl(PR_GET_NO_NEW_PRIVS) != 1
    except OSError as error:
        raise CannotConfine(f"privileges cannot be given up: {error.strerror}") from error
    if kept:
        raise CannotConfine("privileges were given up, and are still there")


def capabilities() -> tuple[int, int, int]:
    """The effective, permitted and inheritable capabilities of this thread, one bit each."""
    sets = ctypes.create_string_buffer(24)
    call("capget", struct.pack("=Ii", CAPABILITY_VERSION, 0), sets)
    # Twice effective, permitted, inheritable: the lower 32 of each, then the higher.
    words = struct.unpack("=6I", sets)
    return words[0] | words[3] << 32, words[1] | words[4] << 32, words[2] | words[5] << 32

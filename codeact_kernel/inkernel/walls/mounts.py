"""Mounts of one process's own view of the file system.

Comes in: paths, and trees that were taken from them (as descriptors). Goes out: the same trees in other places, with
other owners, or read-only. What fails is an `OSError`, or a reason.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import struct
from itertools import pairwise

from .linux import (
    MOUNT_SETATTR,
    MOVE_MOUNT,
    OPEN_TREE,
    PR_SET_PDEATHSIG,
    CannotConfine,
    call,
    open_without_links,
    prctl,
    syscall,
)

AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
CLONE = 1 | AT_RECURSIVE | os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 4
RDONLY, NOSUID, NODEV, IDMAP = 1, 2, 4, 0x00100000
MS_NOSUID, MS_NODEV, MS_REC, MS_SLAVE = 2, 4, 0x4000, 1 << 19
CLONE_NEWUSER = 0x10000000

Ranges = list[tuple[int, int]]
"""Ids: the first ones and the ones past the last."""


def keep_to_ourselves() -> None:
    """Let no mount of this view be seen outside; what is unmounted outside goes here, too."""
    call("mount", None, b"/", None, MS_REC | MS_SLAVE, None)


def take(path: str) -> int:
    """Take a copy of a tree with all that is mounted in it, read-only.

    Args:
        path: The tree.

    Returns:
        The descriptor that stands for it.
    """
    tree = syscall(OPEN_TREE, AT_FDCWD, os.fsencode(path), CLONE)
    _change(tree, AT_EMPTY_PATH | AT_RECURSIVE, RDONLY | NOSUID | NODEV)
    return tree


def lend(path: str, uid: int, gid: int) -> int:
    """Take a copy of a tree in which its owner and a user have changed places, and its group and a group.

    Args:
        path: The tree, without symbolic links.
        uid: The user.
        gid: The group.

    Returns:
        The descriptor that stands for it.

    Raises:
        CannotConfine: If its file system cannot do it.
    """
    folder = open_without_links(path)
    status = os.fstat(folder)
    tree = syscall(OPEN_TREE, folder, b"", CLONE | AT_EMPTY_PATH)
    os.close(folder)
    # Root's devices would be the user's, too.
    _change(tree, AT_EMPTY_PATH | AT_RECURSIVE, NOSUID | NODEV)
    if (status.st_uid, status.st_gid) == (uid, gid):
        return tree
    users = _exchanged(_own_ids("uid_map"), status.st_uid, uid)
    groups = _exchanged(_own_ids("gid_map"), status.st_gid, gid)
    namespace = _user_namespace(users, groups)
    try:
        _map_owners(tree, namespace)
    except OSError as error:
        raise CannotConfine(
            f"the file system of {path} cannot show it to user {uid} as its own: {error.strerror}"
        ) from error
    finally:
        os.close(namespace)
    return tree


def put(tree: int, path: str) -> None:
    """Mount a tree that was taken, and let go of its descriptor.

    Args:
        tree: The descriptor.
        path: Where.
    """
    syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(path), MOVE_MOUNT_F_EMPTY_PATH)
    os.close(tree)


def cover(path: str) -> None:
    """Mount an empty folder over a folder: anybody may pass through it.

    Args:
        path: The folder.
    """
    call("mount", b"tmpfs", os.fsencode(path), b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=0755,size=1m")


def make_read_only(path: str) -> None:
    """Let nothing be changed in what is mounted at a path.

    Args:
        path: The path.
    """
    attributes = struct.pack("=QQQQ", RDONLY, 0, 0, 0)
    syscall(MOUNT_SETATTR, AT_FDCWD, os.fsencode(path), 0, attributes, len(attributes))


def is_folder(tree: int) -> bool:
    """Whether a tree that was taken is a folder, and no single file."""
    return stat.S_ISDIR(os.fstat(tree).st_mode)


def _change(tree: int, flags: int, attributes: int, namespace: int = 0) -> None:
    packed = struct.pack("=QQQQ", attributes, 0, 0, namespace)
    syscall(MOUNT_SETATTR, tree, b"", flags, packed, len(packed))


def _map_owners(tree: int, namespace: int) -> None:
    try:
        _change(tree, AT_EMPTY_PATH | AT_RECURSIVE, IDMAP, namespace)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EPERM):
            raise
        # What is mounted in it may be unable to: then it keeps its owners, and the user has no part in it.
        _change(tree, AT_EMPTY_PATH, IDMAP, namespace)


def _own_ids(name: str) -> Ranges:
    """The ids that this process's own user namespace knows."""
    with open(f"/proc/self/{name}") as lines:
        return [(int(first), int(first) + int(count)) for first, _, count in map(str.split, lines)]


def _exchanged(ids: Ranges, one: int, other: int) -> str:
    """A map of ids in which two have changed places, and every other one is itself."""
    change = {one: other, other: one}
    lines = []
    for first, end in ids:
        cuts = {
            first,
            end,
            *(cut for number in (one, other) for cut in (number, number + 1) if first < cut < end),
        }
        lines += [f"{low} {change.get(low, low)} {high - low}" for low, high in pairwise(sorted(cuts))]
    return "\n".join(lines)


def _user_namespace(users: str, groups: str) -> int:
    """A descriptor of a namespace that no process is in: only its maps are wanted."""
    pid = os.fork()
    if pid == 0:
        try:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            call("unshare", CLONE_NEWUSER)
            os.kill(os.getpid(), signal.SIGSTOP)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        raise CannotConfine("no user namespace can be made, and lending the workspace takes one")
    try:
        for name, text in (("uid_map", users), ("gid_map", groups)):
            with open(f"/proc/{pid}/{name}", "w") as map_file:
                map_file.write(text)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

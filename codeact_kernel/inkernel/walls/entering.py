"""Lets another user work in a tree that is not theirs, without changing the tree: for root only.

Comes in: a workspace, a user, and paths to reach. Goes out: a process with a view of the file system of its own, in
which the workspace's owner and that user have changed places, and folders that are closed to the user let through to
what they need. Nothing of it is seen outside, and nothing is left of it when the last process in it has ended.
"""

from __future__ import annotations

import os

from . import mounts
from .asking import closed_to, unreachable
from .linux import CannotConfine, below, call

CLONE_NEWNS = 0x00020000


def enter(workspace: str, uid: int, gid: int, expose: list[str]) -> None:
    """Enter such a view. The workspace is writable for the user as it is for its owner.

    Args:
        workspace: The folder, without symbolic links. Files that the user makes there belong to the folder's owner
            and group on disk; what belongs to others does so still.
        uid: The user that the process will become.
        gid: The group that it will be in.
        expose: What the user needs to reach. What lies in a closed folder or in the workspace becomes read-only;
            everything else can be reached already, and stays as it is. What does not exist is passed over, and so
            is what a link in the workspace leads to.

    Raises:
        CannotConfine: If the process is not root's, if the workspace's file system cannot change owners, or if
            a path stays closed.
    """
    if os.geteuid() != 0:
        raise CannotConfine("only root can lend a workspace to another user")
    workspace = os.path.normpath(workspace)
    if workspace == "/" or not os.path.isdir(workspace):
        raise CannotConfine(f"{workspace} is no folder that can be a workspace")
    here = os.getcwd()
    links, wanted = _resolved(expose, workspace)
    try:
        call("unshare", CLONE_NEWNS)
        mounts.keep_to_ourselves()
        lent = mounts.lend(workspace, uid, gid)
        _rebuild(workspace, lent, closed_to(uid, gid, workspace, [workspace, *wanted]), wanted, links)
        # The current folder is still that of outside.
        os.chdir(here if os.path.isdir(here) else "/")
    except OSError as error:
        raise CannotConfine(f"the workspace cannot be lent to user {uid}: {error}") from error
    if closed := unreachable(uid, gid, workspace, wanted):
        raise CannotConfine(f"{closed[0]} is closed to user {uid}: its own mode does not let others read it")


def _resolved(paths: list[str], workspace: str) -> tuple[dict[str, str], list[str]]:
    """The symbolic links on the way to some paths, with what they say, and the paths at their ends.

    Links in the workspace are not followed: an earlier kernel may have made them.
    """
    links: dict[str, str] = {}
    ends = set()
    for path in paths:
        place = _in_real_folder(path, workspace)
        while place and os.path.islink(place) and place not in links and not below(place, [workspace]):
            links[place] = os.readlink(place)
            place = _in_real_folder(os.path.join(os.path.dirname(place), links[place]), workspace)
        if place and place != workspace and os.path.exists(place) and not os.path.islink(place):
            ends.add(place)
    return links, sorted(ends)


def _in_real_folder(path: str, workspace: str) -> str:
    """The same path with no links above its end; empty where one in the workspace leads out of it."""
    path = os.path.normpath(path)
    folder, name = os.path.split(path)
    real = os.path.join(os.path.realpath(folder), name)
    return "" if below(path, [workspace]) and not below(real, [workspace]) else real


def _rebuild(workspace: str, lent: int, closed: list[str], wanted: list[str], links: dict[str, str]) -> None:
    """Put the workspace in its place, and in the place of each closed folder one that leads to what is wanted."""
    # Taken before anything is covered.
    trees = {
        path: mounts.take(path)
        for path in wanted
        if below(path, closed) and not below(path, [workspace, *(other for other in wanted if other != path)])
    }
    for folder in closed:
        mounts.cover(folder)
    trees[workspace] = lent
    mask = os.umask(0o022)
    for path in sorted(trees, key=len):
        _make_place(path, is_folder=mounts.is_folder(trees[path]))
        mounts.put(trees[path], path)
    for link, target in links.items():
        if below(link, closed) and not os.path.lexists(link):
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(target, link)
    os.umask(mask)
    for folder in closed:
        mounts.make_read_only(folder)
    for path in wanted:
        if below(path, [workspace]):
            mounts.put(mounts.take(path), path)


def _make_place(path: str, *, is_folder: bool) -> None:
    if os.path.exists(path):
        return
    os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))

"""Asks as another user what that user can reach: modes, groups and access lists, as the system judges them.

Comes in: paths. Goes out: those that are closed. A child asks, since only a whole process can be another user.
"""

from __future__ import annotations

import json
import os
import stat

from .linux import CannotConfine
from .privileges import become

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def closed_to(uid: int, gid: int, workspace: str, paths: list[str]) -> list[str]:
    """The uppermost folders that keep a user from some paths, each once.

    Args:
        uid: The user.
        gid: Its group.
        workspace: A folder that will be open to the user.
        paths: Absolute, with no symbolic links.

    Returns:
        The folders.

    Raises:
        CannotConfine: If it cannot be asked.
    """
    return _ask_as(
        uid, gid, lambda: sorted({folder for path in paths if (folder := _closed(path, workspace))})
    )


def unreachable(uid: int, gid: int, workspace: str, paths: list[str]) -> list[str]:
    """What of some paths a user cannot read; and the workspace, if the user cannot work in it.

    Args:
        uid: The user.
        gid: Its group.
        workspace: The workspace.
        paths: Absolute.

    Returns:
        Those that are closed.

    Raises:
        CannotConfine: If it cannot be asked.
    """

    def look() -> list[str]:
        closed = [] if os.access(workspace, os.R_OK | os.W_OK | os.X_OK) else [workspace]
        return closed + [path for path in paths if not _readable(path)]

    return _ask_as(uid, gid, look)


def _closed(path: str, workspace: str) -> str | None:
    folder = "/"
    for name in path.split("/")[1:]:
        if folder == workspace:
            return None
        if not os.access(folder, os.X_OK):
            return folder
        folder = os.path.join(folder, name)
    return None


def _readable(path: str) -> bool:
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except OSError:
        return False
    return os.access(path, os.R_OK | (os.X_OK if is_folder else 0))


def _ask_as(uid: int, gid: int, question: Callable[[], list[str]]) -> list[str]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            become(uid, gid)
            with open(write, "w") as pipe:
                json.dump(question(), pipe)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with open(read) as pipe:
        answer = pipe.read()
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise CannotConfine(f"what user {uid} can reach cannot be asked: the process cannot become that user")
    return [str(path) for path in json.loads(answer)]

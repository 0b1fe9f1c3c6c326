"""A folder that nothing leads out of.

Comes in: a folder, and paths that a model wrote. Goes out: descriptors of what the paths name, or a `ToolError`.
A path is walked one part after the other, each opened relative to the one before and never through a symlink: links
are read and walked in the same way. So what was checked is what is opened, whatever is swapped in between. The kernel
has a call for this (openat2 with RESOLVE_IN_ROOT), which containers often forbid and which takes no absolute link that
leads inside; one way that holds everywhere is better than two.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from codeact_kernel.errors import ConfigError, ToolError
from codeact_kernel.tools.passage import check_place

LINKS = 40
"""Symlinks in one path; Linux's own limit (path_resolution(7))."""
DEEPEST = 100
"""Folders in each other. Ours: each takes a descriptor while a path is walked, of which a process has a thousand."""
LONGEST = 4096
"""Bytes of a path; Linux's own limit."""
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
"""What lies on their file systems is no data of the workspace, even where the workspace is all of the machine."""
_KERNEL_SYSTEMS = frozenset({
    0x9FA0, 0x62656572, 0x1CD1, 0x64626720, 0x74726163, 0x27E0EB, 0x63677270, 0x73636673, 0xCAFE4A11, 0xDE5E81E4,
    0x62656570, 0xF97CFF8C, 0x19800202, 0x42494E4D, 0x6E736673, 0x65735543, 0x6165676C,
})  # fmt: skip
"""Nor what lies on another one of that kind, wherever it is mounted: proc, sysfs, devpts, debugfs, tracefs, cgroups,
securityfs, bpf, efivarfs, configfs, selinuxfs, mqueue, binfmt_misc, nsfs, fusectl, pstore (statfs(2))."""
_STATFS = 256
"""Bytes, more than `struct statfs` has on any machine. Its first member, a long, is the kind."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads: an open folder, and the name in it."""

    folder: int
    """A descriptor; it is closed with the walk."""
    name: str
    """"." is the folder itself."""
    path: str
    """As the model wrote it."""
    real: str
    """From the workspace on, with all symlinks resolved."""


class Workspace:
    """A folder, and the only way to open what lies in it.

    Args:
        folder: The folder.

    Raises:
        ConfigError: If it is none.
    """

    def __init__(self, folder: Path | str) -> None:
        self.given = Path(os.path.abspath(Path(folder).expanduser()))  # noqa: PTH100 - links stay
        self.root = self.given.resolve()
        if not self.root.is_dir():
            raise ConfigError(f"the workspace {folder} is no folder")

    @contextlib.contextmanager
    def walk(self, path: str, *, make_folders: bool = False) -> Iterator[Place]:
        """Walk a path up to the folder that holds what it names.

        Args:
            path: Relative to the workspace, or absolute and within it.
            make_folders: Whether folders on the way that are missing are made.

        Raises:
            ToolError: If it leads out, or a folder on the way is none.
        """
        with contextlib.ExitStack() as stack:
            try:
                place = self._walk(path, stack, make_folders)
                check_place(path, os.path.normpath(self.root / place.real))
                yield place
            except OSError as error:
                raise failed(path, error) from error

    @contextlib.contextmanager
    def open(self, path: str, kind: str = "file") -> Iterator[int]:
        """Open a file or a folder for reading.

        Args:
            path: As for `walk`.
            kind: "file" or "folder".

        Raises:
            ToolError: If it leads out, is not there, or is neither: a pipe, a socket or a device is never opened.
        """
        with self.walk(path) as place:
            fd = open_in(place.folder, place.name, kind, path)
            try:
                yield fd
            finally:
                os.close(fd)

    def _walk(self, path: str, stack: contextlib.ExitStack, make_folders: bool) -> Place:
        todo = deque(self._parts(path))
        root = _opened(stack, os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW))
        folders, names, links = [root], list[str](), 0
        while todo:
            part = todo.popleft()
            if part == "..":
                if not names:
                    raise _outside(path)
                names.pop()
                folders.pop()
                continue
            target = _link(part, folders[-1])
            if target is not None:
                links += 1
                if links > LINKS:
                    raise ToolError(f"{path!r} leads through too many symlinks; name the file itself")
                if target.startswith("/"):
                    folders, names = [root], []
                todo.extendleft(reversed(self._parts(target, path)))
                continue
            if len(folders) > DEEPEST:
                raise ToolError(
                    f"{path!r:.200} lies more than {DEEPEST} folders deep; none that deep is opened"
                )
            if not todo:
                return Place(folders[-1], part, path, "/".join([*names, part]))
            folders.append(_opened(stack, _folder(part, folders[-1], make_folders)))
            names.append(part)
        return Place(folders[-1], ".", path, "/".join(names) or ".")

    def _parts(self, path: str, named: str | None = None) -> list[str]:
        """The parts of a path from the workspace on."""
        if not isinstance(path, str) or not path or "\0" in path:
            raise ToolError(f"{path!r:.200} is no path; pass a text such as 'folder/file.txt'")
        if len(path) > LONGEST:
            raise ToolError(f"{path[:100]!r}… is too long for a path; {LONGEST} characters are the most")
        pure = PurePosixPath(path)
        if pure.is_absolute():
            for root in (self.given, self.root):
                if pure.is_relative_to(root):
                    pure = pure.relative_to(root)
                    break
            else:
                raise _outside(named or path)
        return [part for part in pure.parts if part != "."]


def open_in(folder: int, name: str, kind: str, path: str) -> int:
    """Open what lies in an open folder, for reading, once it is known to be a file or a folder.

    Args:
        folder: The folder's descriptor.
        name: The name in it.
        kind: "file" or "folder".
        path: What the model called it.

    Returns:
        A descriptor.

    Raises:
        ToolError: If it is of another kind.
        OSError: If it is not there or must not be read.
    """
    # A descriptor that only names it: opening a device or a pipe would already do something.
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
    try:
        check_kind(os.fstat(handle), kind, path)
        if _is_of_the_system(handle):
            raise _no_file(path)
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY)
    finally:
        os.close(handle)


def check_kind(status: os.stat_result, kind: str, path: str) -> None:
    """Check what a path names.

    Args:
        status: What the system says of it.
        kind: "file" or "folder": what it shall be.
        path: What the model called it.

    Raises:
        ToolError: If it is something else.
    """
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        raise ToolError(f"{path!r} was swapped for a symlink meanwhile; try again")
    if status.st_dev in _kernel_devices() or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise _no_file(path)
    if kind == "file" and stat.S_ISDIR(mode):
        raise ToolError(f"{path!r} is a folder; list_dir({path!r}) tells what is in it")
    if kind == "folder" and not stat.S_ISDIR(mode):
        raise ToolError(f"{path!r} is a file; read_file({path!r}) reads it")


def failed(path: str, error: OSError) -> ToolError:
    """What the system refused, as a sentence for the model.

    Args:
        path: What the model called it.
        error: What the system said.
    """
    match error.errno:
        case errno.ENOENT:
            text = f"there is no {path!r} in the workspace; list_dir() tells what is there"
        case errno.ENOTDIR:
            text = f"{path!r} leads through something that is no folder; list_dir() tells what is there"
        case errno.EACCES | errno.EPERM:
            text = f"{path!r} must not be opened: {error.strerror}"
        case _:
            text = f"{path!r} cannot be used: {error.strerror or error}"
    return ToolError(text)


def shown(name: str) -> str:
    """A file's name as text that can travel: bytes that are no UTF-8 are replaced.

    Args:
        name: The name as Python has it.
    """
    return os.fsencode(name).decode("utf-8", "replace")


def _no_file(path: str) -> ToolError:
    return ToolError(f"{path!r} is a device, a pipe, a socket or a file of the system; only files are opened")


def _outside(path: str) -> ToolError:
    return ToolError(
        f"{path!r} leads out of the workspace; use a path relative to it, such as 'folder/file.txt'"
    )


def _opened(stack: contextlib.ExitStack, fd: int) -> int:
    stack.callback(os.close, fd)
    return fd


def _link(name: str, folder: int) -> str | None:
    """What a symlink says; None if it is none, or not there."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _folder(name: str, parent: int, make: bool) -> int:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    return os.open(name, flags, dir_fd=parent)


def _kernel_devices() -> set[int]:
    devices = set()
    for folder in _KERNEL_FOLDERS:
        with contextlib.suppress(OSError):
            devices.add(os.stat(folder).st_dev)  # noqa: PTH116 - a number
    root = os.stat("/").st_dev  # noqa: PTH116
    return devices - {root}


def _is_of_the_system(fd: int) -> bool:
    """Whether a file is on a file system by which the system shows itself. Python does not tell its kind."""
    about = ctypes.create_string_buffer(_STATFS)
    if _libc().fstatfs(fd, about) != 0:
        return False
    return int.from_bytes(about.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder) in _KERNEL_SYSTEMS


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)

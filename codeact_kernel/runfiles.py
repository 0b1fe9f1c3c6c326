"""The files of a run, which no link leads elsewhere.

Comes in: the path of a folder, names in it. Goes out: a `Folder`, held open, and files that are made or opened in it.

A run's folder lies in the workspace, and a block may put a link where we are about to write. So its folders are held
open and its files reached from there: a folder that somebody puts in the old one's place is not seen, and a link is an
error. What is made here only its owner can read.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
_PLAIN: int = getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
"""A FIFO in a file's place must not hold us until somebody reads it."""
_HELD = _DIRECTORY != 0 and os.open in os.supports_dir_fd
"""Whether folders can be held open; elsewhere (Windows) their paths have to do."""
_PIECE = 2**20
"""Bytes that are copied at once."""
OURS, FOLDER = 0o600, 0o700
"""The modes of what is made."""


class Folder:
    """A folder, held open until it is closed.

    Args:
        path: Where it was when it was opened.
        fd: Its descriptor; None where folders cannot be held.
    """

    def __init__(self, path: Path, fd: int | None) -> None:
        self.path = path
        self._fd = fd

    @classmethod
    def make(cls, path: Path, *, below: Path | None = None) -> Self:
        """Open a folder, made where it is missing.

        Args:
            path: The folder.
            below: From here on down no link is followed: others can write there. None for the folder's own path, which
                somebody has chosen, links and all.

        Raises:
            OSError: If it cannot be made, or a link is in the way.
        """
        path = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` follows links
        names: tuple[str, ...] = ()
        base = path
        if below is not None:
            # The outermost: its path may lead there through links that somebody has chosen.
            ways = [folder for folder in (path, *path.parents) if folder.is_dir() and folder.samefile(below)]
            base = ways[-1] if ways else path
            names = path.relative_to(base).parts
        if not base.is_dir():
            base.parent.mkdir(parents=True, exist_ok=True)
            base.mkdir(FOLDER, exist_ok=True)
        folder = cls(base, os.open(base, os.O_RDONLY | _DIRECTORY) if _HELD else None)
        for name in names:
            try:
                inner = folder.sub(name)
            finally:
                folder.close()
            folder = inner
        return folder

    def sub(self, name: str) -> Self:
        """Open a folder in it, made where it is missing.

        Raises:
            OSError: If a link or a file is in the way.
        """
        path = self.path / name
        with suppress(FileExistsError):
            if self._fd is None:
                path.mkdir(FOLDER)
            else:
                os.mkdir(name, FOLDER, dir_fd=self._fd)
        if self._fd is None:
            return type(self)(path, None)
        try:
            fd = os.open(name, os.O_RDONLY | _DIRECTORY | _NOFOLLOW, dir_fd=self._fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise _in_the_way(path) from None
            raise
        return type(self)(path, fd)

    def has(self, name: str) -> bool:
        """Whether there is anything of that name, a link that leads nowhere included."""
        try:
            if self._fd is None:
                os.lstat(self.path / name)
            else:
                os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def create(self, name: str) -> int:
        """Make a file, for reading and appending.

        Returns:
            Its descriptor.

        Raises:
            OSError: If there is anything of that name.
        """
        return self._open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)

    def append(self, name: str) -> int:
        """Open a file for reading and appending, made where it is missing.

        Returns:
            Its descriptor.

        Raises:
            OSError: If it is a link, no plain file, not ours, or known under a second name.
        """
        for _ in range(3):  # it may come and go meanwhile
            with suppress(FileExistsError):
                return self.create(name)
            with suppress(FileNotFoundError):
                return self._checked(name, self._open(name, os.O_RDWR | os.O_APPEND))
        raise _in_the_way(self.path / name)

    def read(self, name: str) -> int:
        """Open a file for reading.

        Returns:
            Its descriptor.

        Raises:
            OSError: If it is not there, or as for `append`.
        """
        return self._checked(name, self._open(name, os.O_RDONLY))

    def replace(self, name: str, data: bytes | Iterable[bytes]) -> None:
        """Put a file in place, whole: written beside the old one, which it replaces in one step; on the disk then.

        Args:
            name: The file.
            data: What it holds, or the pieces of that; an `OSError` of who makes them passes.

        Raises:
            OSError: If it cannot be written. The old one is still there.
        """
        beside = f".{name}.part"
        self.remove(beside)
        fd = self.create(beside)
        try:
            try:
                for piece in (data,) if isinstance(data, bytes) else data:
                    write_all(fd, piece)
                os.fsync(fd)
            finally:
                os.close(fd)
            if self._fd is None:
                (self.path / beside).replace(self.path / name)
            else:
                os.rename(beside, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except OSError:
            with suppress(OSError):
                self.remove(beside)
            raise

    def names(self) -> list[str]:
        """What is in it."""
        return os.listdir(self.path if self._fd is None else self._fd)  # noqa: PTH208

    def take(self, path: Path, name: str) -> None:
        """Move a file in that somebody else has written, who may have put anything there; it is on the disk then.

        Args:
            path: Where it lies. A copy is made where it cannot be moved.
            name: The name that it gets.

        Raises:
            OSError: If it is no plain file, or cannot be moved.
        """
        with open_plain(path, follow=False) as file:
            about = os.fstat(file.fileno())
            is_ours = about.st_uid == getattr(os, "geteuid", lambda: about.st_uid)() and about.st_nlink == 1
            if is_ours and self._fd is not None:
                os.fchmod(file.fileno(), OURS)
                os.fsync(file.fileno())
                with suppress(OSError):  # another disk
                    os.rename(path, name, dst_dir_fd=self._fd)
                    if _identity(self._fd, name) == _identity(file.fileno()):
                        return
            self.remove(name)
            fd = self.create(name)
            try:
                with open(fd, "wb", closefd=False) as out:
                    shutil.copyfileobj(file, out, _PIECE)
                os.fsync(fd)
            except OSError:
                self.remove(name)
                raise
            finally:
                os.close(fd)

    def lend(self, name: str, path: Path) -> None:
        """Let somebody else read a file, who may remove it there.

        Args:
            name: The file.
            path: Where it shall be; nothing is there.

        Raises:
            OSError: If that cannot be done.
        """
        with open(self.read(name), "rb") as file:
            with suppress(OSError):
                if self._fd is not None:
                    if os.geteuid() == 0:  # it may be lent to another user; the folder lets nobody through
                        os.fchmod(file.fileno(), 0o644)
                    os.link(name, path, src_dir_fd=self._fd, follow_symlinks=False)
                    return
            with path.open("xb") as out:
                shutil.copyfileobj(file, out, _PIECE)

    def rename(self, name: str, new: str) -> None:
        """Give a file another name; what has that name is replaced."""
        if self._fd is None:
            (self.path / name).replace(self.path / new)
        else:
            os.rename(name, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        """Remove a file, or a link as such; none is fine."""
        with suppress(FileNotFoundError):
            if self._fd is None:
                (self.path / name).unlink()
            else:
                os.unlink(name, dir_fd=self._fd)

    def close(self) -> None:
        """Let go of it; may be called twice."""
        if self._fd is not None and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1  # an error for who goes on with it; never another one's descriptor

    def __del__(self) -> None:
        self.close()

    def _open(self, name: str, flags: int) -> int:
        try:
            if self._fd is None:
                return os.open(self.path / name, flags | _PLAIN, OURS)
            return os.open(name, flags | _NOFOLLOW | _PLAIN, OURS, dir_fd=self._fd)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _in_the_way(self.path / name) from None
            raise

    def _checked(self, name: str, fd: int) -> int:
        about = os.fstat(fd)
        owner = getattr(os, "geteuid", lambda: about.st_uid)()
        if stat.S_ISREG(about.st_mode) and about.st_nlink <= 1 and about.st_uid == owner:
            return fd
        os.close(fd)
        raise _in_the_way(self.path / name)


class SpilledFile:
    """A file that is opened anew for each access, so that a hundred of them hold no descriptors.

    It is the one that was made, each time: what somebody puts in its place is an error.

    Args:
        folder: Where it is; stays open.
        name: Its name, which nothing there has.
        found: Whether it is there already.

    Raises:
        OSError: If it cannot be made, or opened.
    """

    def __init__(self, folder: Folder, name: str, *, found: bool = False) -> None:
        self._folder = folder
        self._name = name
        self.path = folder.path / name
        fd = folder.read(name) if found else folder.create(name)
        self._is = _identity(fd)
        os.close(fd)

    def append(self, pieces: Iterable[bytes]) -> None:
        """Write to its end.

        Raises:
            OSError: If it cannot be written, or is another file by now.
        """
        fd = self._same(self._folder.append(self._name))
        try:
            for piece in pieces:
                write_all(fd, piece)
        finally:
            os.close(fd)

    def read(self, start: int, count: int) -> bytes:
        """Read bytes of it.

        Raises:
            OSError: If it is not there, or is another file by now.
        """
        fd = self._same(self._folder.read(self._name))
        try:
            os.lseek(fd, start, os.SEEK_SET)
            pieces = []
            while count > 0 and (piece := os.read(fd, count)):
                pieces.append(piece)
                count -= len(piece)
            return b"".join(pieces)
        finally:
            os.close(fd)

    def shorten(self, size: int) -> None:
        """Drop what is behind a number of bytes.

        Raises:
            OSError: As for `append`.
        """
        fd = self._same(self._folder.append(self._name))
        try:
            os.ftruncate(fd, size)
        finally:
            os.close(fd)

    def _same(self, fd: int) -> int:
        if _identity(fd) == self._is:
            return fd
        os.close(fd)
        raise OSError(errno.ESTALE, f"{self.path} was replaced by another file")


def open_plain(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a file for reading that may be anything: a FIFO in its place would hold us for ever, a device never end.

    Args:
        path: The file.
        follow: Whether it may be a link.

    Raises:
        OSError: If it cannot be read, or is no plain file.
    """
    fd = os.open(path, os.O_RDONLY | _PLAIN | (0 if follow else _NOFOLLOW))
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return open(fd, "rb")
    os.close(fd)
    raise OSError(errno.EINVAL, "it is no plain file", str(path))


def as_typed(path: Path) -> str:
    """A path as a person would type it: from the current folder where it lies below that.

    Args:
        path: The path.
    """
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, however little is taken at once.

    Raises:
        OSError: If something of it is not taken.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _identity(fd: int, name: str | None = None) -> tuple[int, int]:
    about = os.fstat(fd) if name is None else os.stat(name, dir_fd=fd, follow_symlinks=False)
    return about.st_dev, about.st_ino


def _in_the_way(path: Path) -> OSError:
    return OSError(
        errno.ELOOP, f"{path.name} is a link or no file of ours, and nothing is written through it", str(path)
    )

"""Files of the workspace, as tools: read, write, edit, list.

Comes in: paths and texts from blocks. Goes out: texts, bytes and lists, or a `ToolError` that says what to do.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.builtin.edits import difference, replaced
from codeact_kernel.tools.builtin.texts import PEEK, decoded, encoded, mark_of, no_encoding, undecodable
from codeact_kernel.tools.builtin.workspace import DEEPEST, Place, Workspace, check_kind, open_in, shown

READ = 4 * 2**20
"""Bytes (of text: characters) that one call reads, and that a file to be edited may have. Ours: a hundred times the
longest source file that anybody reads, and 0.12 s over the bridge."""
WRITTEN = 16 * 2**20
"""Bytes that one call writes. Ours: what comes in one message, several times over."""
ENTRIES = 2000
"""Entries that `list_dir` gives. Ours: more than that is a tree to be searched, not to be read."""
_PIECE = 2**16
"""Characters that are read at once, of a line that never ends."""


class FileTools:
    """Tools that read and write a workspace's files.

    Args:
        workspace: The workspace.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._writing = threading.Lock()
        """Tools run in threads: two edits of one file at once must both be in it."""

    def read_file(
        self, path: str, start: int = 1, end: int | None = None, encoding: str | None = "utf-8"
    ) -> str | bytes:
        r"""Read a text file of the workspace, whole or some of its lines, as one string.

        Line ends come as they are in the file ("\r\n" stays); a byte order mark decides the encoding and is left out.

        Args:
            path: Relative to the workspace, or absolute and within it.
            start: The first line, counted from 1.
            end: The last line, which is included; None for all that follow.
            encoding: The text's encoding; None gives bytes, and start and end then count bytes.

        Raises:
            ToolError: If there is no such file, it is no text in that encoding, or more than 4 MiB would come.
        """
        if not isinstance(start, int) or start < 1 or not (end is None or isinstance(end, int)):
            raise ToolError(f"start={start!r}, end={end!r}: lines are whole numbers from 1; end may be None")
        with self._workspace.open(path) as fd, open(fd, "rb", closefd=False) as file:
            if encoding is None:
                return _bytes(file, start, end, path)
            return _text(file, start, end, encoding, path)

    def write_file(self, path: str, content: str | bytes, encoding: str = "utf-8") -> int:
        """Write a file of the workspace, new or instead of what is there, and return its size in bytes.

        Folders on the way are made. It is written whole or not at all; line ends are written as given.

        Args:
            path: Relative to the workspace, or absolute and within it.
            content: A text, or bytes.
            encoding: The text's encoding.

        Raises:
            ToolError: If the path is a folder or no ordinary file, or the content cannot be encoded.
        """
        if not isinstance(content, str | bytes):
            raise ToolError(f"content is a {type(content).__name__}; pass a text or bytes")
        data = _of_size(content if isinstance(content, bytes) else encoded(content, encoding))
        with self._writing, self._workspace.walk(path, make_folders=True) as place:
            put(place, data, _status(place))
        return len(data)

    def edit_file(self, path: str, old: str, new: str, replace_all: bool = False) -> str:
        r"""Replace a text in a file of the workspace, which must be there exactly once, and return the diff.

        White space counts. "\n" also matches the file's "\r\n", which is kept, as are its encoding (UTF-8, or by its
        byte order mark) and all that is not replaced.

        Args:
            path: Relative to the workspace, or absolute and within it.
            old: The text as it is in the file; with lines around it where it occurs more than once.
            new: What stands there instead; "" removes it.
            replace_all: Replace every occurrence.

        Raises:
            ToolError: If old is not there, or is there more than once; the message says how often.
        """
        with self._writing, self._workspace.walk(path) as place:
            text, before, write = _whole(place)
            changed = replaced(text, old, new, replace_all, path)
            if changed == text:
                raise ToolError("old and new are the same text: nothing would change")
            put(place, write(changed), before)
        return difference(text, changed, place.real)

    def preview_write(self, arguments: Mapping[str, Any]) -> str:
        """What `write_file` would change, as a diff.

        Args:
            arguments: Of the call, by name.

        Raises:
            ToolError: If what is there, or what shall be, is no text.
        """
        path, content = arguments["path"], arguments["content"]
        if not isinstance(content, str):
            raise ToolError("bytes have no diff")
        with self._workspace.walk(path) as place:
            text = _whole(place)[0] if _status(place) is not None else ""
            return difference(text, content, place.real) if text != content else ""

    def preview_edit(self, arguments: Mapping[str, Any]) -> str:
        """What `edit_file` would change, as a diff; as `preview_write`."""
        path, every = arguments["path"], bool(arguments.get("replace_all", False))
        with self._workspace.walk(path) as place:
            text = _whole(place)[0]
            return difference(
                text, replaced(text, arguments["old"], arguments["new"], every, path), place.real
            )

    def list_dir(self, path: str = ".", depth: int = 1) -> list[dict[str, Any]]:
        """List a folder of the workspace: for each entry its path, kind and size in bytes.

        The kind is "file", "folder", "link" (with `to`: what it points to; links are not followed) or "other".

        Args:
            path: Relative to the workspace, or absolute and within it.
            depth: 2 for the folders' entries too, and so on.

        Raises:
            ToolError: If there is no such folder, or it holds more than 2,000 entries.
        """
        if not isinstance(depth, int) or depth < 1:
            raise ToolError(f"depth={depth!r}: pass a whole number from 1")
        entries: list[dict[str, Any]] = []
        with self._workspace.walk(path) as place:
            fd = open_in(place.folder, place.name, "folder", path)
            prefix = "" if place.real == "." else f"{place.real}/"
            for entry in _entries(fd, prefix, depth):
                if len(entries) == ENTRIES:
                    raise ToolError(f"{path!r} holds more than {ENTRIES} entries; list a folder in it")
                entries.append(entry)
        return entries


def _whole(place: Place) -> tuple[str, os.stat_result, Callable[[str], bytes]]:
    """A text file: its text, what the system says of it, and what writes a text as it is written."""
    fd = open_in(place.folder, place.name, "file", place.path)
    with open(fd, "rb") as file:
        before = os.fstat(fd)
        data = _bytes(file, 1, None, place.path)
    mark, codec = mark_of(data)
    return decoded(data[len(mark) :], codec, place.path), before, lambda text: mark + encoded(text, codec)


def _bytes(file: io.BufferedReader, start: int, end: int | None, path: str) -> bytes:
    file.seek(start - 1)
    wanted = READ + 1 if end is None else max(0, end - start + 1)
    data = file.read(min(wanted, READ + 1))
    if len(data) > READ:
        raise _too_large(file, path, "bytes")
    return data


def _text(file: io.BufferedReader, start: int, end: int | None, encoding: str, path: str) -> str:
    peeked = file.peek(PEEK)[:PEEK]
    mark, marked = mark_of(peeked)
    if mark:
        encoding = marked
        file.seek(len(mark))
    elif b"\0" in peeked and not encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32")):
        size = os.fstat(file.fileno()).st_size
        raise ToolError(f"{path!r} is no text ({size} bytes); encoding=None gives bytes")
    try:
        reader = io.TextIOWrapper(file, encoding, newline="\n")
    except LookupError as error:
        raise no_encoding(encoding) from error
    try:
        return "".join(_lines(reader, start, end, path))
    except UnicodeError as error:
        raise undecodable(path, encoding) from error
    finally:
        with contextlib.suppress(ValueError):
            reader.detach()


def _lines(reader: io.TextIOWrapper, start: int, end: int | None, path: str) -> Iterator[str]:
    """The lines that are wanted, in pieces; memory holds none of the others."""
    line, size = 1, 0
    while end is None or line <= end:
        piece = reader.readline(_PIECE)
        if not piece:
            return
        if line >= start:
            size += len(piece)
            if size > READ:
                raise _too_large(reader, path, "lines")
            yield piece
        line += piece.endswith("\n")


def _too_large(file: io.BufferedReader | io.TextIOWrapper, path: str, unit: str) -> ToolError:
    size = os.fstat(file.fileno()).st_size
    return ToolError(
        f"{path!r} has {size} bytes, and one call reads {READ} at most; read some of its {unit} with start= and end="
    )


def _of_size(data: bytes) -> bytes:
    if len(data) > WRITTEN:
        raise ToolError(
            f"{len(data)} bytes are too many: one call writes {WRITTEN} at most; write the file in the block"
        )
    return data


def _status(place: Place) -> os.stat_result | None:
    """What the system says of a place; None where nothing is."""
    try:
        return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def put(place: Place, data: bytes, before: os.stat_result | None) -> None:
    """Put a new file into the place of the one that was there before.

    Nothing is written into a file that exists: it may have other names (hard links) outside the workspace, and who
    reads it meanwhile would see half of it.

    Args:
        place: The place.
        data: What the file holds.
        before: What was there when it was looked at; None for nothing.

    Raises:
        ToolError: If that is no file that may be replaced, or something else is there by now.
    """
    if before is not None:
        check_kind(before, "file", place.path)
        if not before.st_mode & 0o222:
            raise ToolError(f"{place.path!r} is write-protected, so it was left as it is")
    # The new file is this process's own: a mark that lets others run it as its owner must not come along.
    mode = 0o666 if before is None else before.st_mode & 0o777
    beside = f".{secrets.token_hex(8)}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    fd = os.open(beside, flags, mode, dir_fd=place.folder)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            if before is not None:
                os.fchmod(fd, mode)
        if _version(_status(place)) != _version(before):
            raise ToolError(f"{place.path!r} was changed by something else meanwhile; read it and try again")
        os.replace(beside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        os.unlink(beside, dir_fd=place.folder)
        raise


def _version(status: os.stat_result | None) -> tuple[int, ...] | None:
    if status is None:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, stat.S_IFMT(status.st_mode)


def _entries(fd: int, prefix: str, depth: int) -> Iterator[dict[str, Any]]:
    """What an open folder holds, in order; the descriptor is closed."""
    try:
        if prefix.count("/") > DEEPEST:
            raise ToolError(
                f"{prefix[:100]}… lies more than {DEEPEST} folders deep; list with a smaller depth"
            )
        with os.scandir(fd) as scan:
            found = list(itertools.islice(scan, ENTRIES + 1))
        if len(found) > ENTRIES:
            raise ToolError(f"{prefix or '.'!r} holds more than {ENTRIES} entries; list a folder in it")
        for entry in sorted(found, key=lambda entry: entry.name):
            described = None
            with contextlib.suppress(FileNotFoundError):  # it may be gone by now
                described = _described(entry, prefix, fd)
            if described is None:
                continue
            yield described
            below = _folder_below(fd, entry.name, described) if depth > 1 else None
            if below is not None:
                yield from _entries(below, f"{prefix}{entry.name}/", depth - 1)
    finally:
        os.close(fd)


def _folder_below(fd: int, name: str, described: dict[str, Any]) -> int | None:
    """An entry's descriptor, if it is a folder. One of the system is named, and not opened."""
    if described["kind"] == "folder":
        with contextlib.suppress(FileNotFoundError, ToolError):
            return open_in(fd, name, "folder", described["path"])
    return None


def _described(entry: os.DirEntry[str], prefix: str, fd: int) -> dict[str, Any]:
    status = entry.stat(follow_symlinks=False)
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "other")
    described: dict[str, Any] = {"path": prefix + shown(entry.name), "kind": kind, "size": status.st_size}
    if kind == "link":
        described["to"] = shown(os.readlink(entry.name, dir_fd=fd))
    return described

"""Searches text where there is no ripgrep. The file runs as a process of its own: a pattern may take for ever.

Comes in: pattern, flags, path, glob and largest size as arguments; the current folder. Goes out: what
`rg --null --line-number` prints for the same. Standard library only.
"""

from __future__ import annotations

import codecs
import fnmatch
import os
import re
import stat
import sys
from collections.abc import Iterator

SKIPPED = ("node_modules", "__pycache__", "venv", "site-packages")
"""Folders that hold other people's code. Hidden ones (.git, .venv, .tox) are skipped as such."""
_PEEK = 2**16
"""Bytes in which a zero byte says that a file is no text; ripgrep's first buffer."""
DEEPEST = 100
"""Folders in each other that are looked into; each takes a descriptor."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def files_below(
    folder: int, prefix: str, glob: str, largest: int, depth: int = DEEPEST
) -> Iterator[tuple[str, bytes]]:
    """The files below a folder with what is in them, in order; symlinks are not followed.

    Args:
        folder: Its descriptor.
        prefix: What its files' paths begin with.
        glob: What the files' names match; "" for all.
        largest: Bytes of a file; larger ones are skipped.
        depth: Folders in each other that are looked into.
    """
    globs, device = _globs(glob), os.fstat(folder).st_dev
    for name in sorted(os.listdir(folder), key=os.fsencode):
        try:
            if name.startswith(".") or not _is_searched(os.stat(name, dir_fd=folder, follow_symlinks=False)):
                continue
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        except OSError:
            continue
        try:
            status = os.fstat(fd)
            if status.st_dev != device or not _is_searched(status):
                continue
            if stat.S_ISDIR(status.st_mode):
                if name not in SKIPPED and depth > 0:
                    yield from files_below(fd, f"{prefix}{name}/", glob, largest, depth - 1)
            elif status.st_size <= largest and any(fnmatch.fnmatchcase(name, one) for one in globs):
                yield prefix + name, read(fd, largest)
        except OSError:
            continue
        finally:
            os.close(fd)


def _is_searched(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)


def _globs(glob: str) -> list[str]:
    """A glob without its braces: `*.{py,pyi}` is `*.py` and `*.pyi`."""
    choice = re.search(r"\{([^{}]*)\}", glob)
    if choice is None:
        return [glob or "*"]
    before, after = glob[: choice.start()], glob[choice.end() :]
    return [one for option in choice[1].split(",") for one in _globs(before + option + after)]


def matches(data: bytes, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """The lines of a file in which a pattern is found, with their numbers.

    Args:
        data: What is in the file.
        pattern: The pattern.
    """
    for number, line in enumerate(lines_of(data), 1):
        if pattern.search(line):
            yield number, line


def lines_of(data: bytes) -> list[str]:
    """The lines of a file; none of one that is no text.

    Args:
        data: What is in the file.
    """
    if _is_binary(data):
        return []
    if data.startswith(_UTF16):
        text = data.decode("utf-16", "replace")
    else:
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def read(fd: int, most: int) -> bytes:
    """What is in a file, as far as it is searched: it may grow while it is read.

    Args:
        fd: Its descriptor.
        most: Bytes that are read.
    """
    with open(fd, "rb", closefd=False) as file:
        begun = file.read(min(_PEEK, most))
        return begun if _is_binary(begun) else begun + file.read(most - len(begun))


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:_PEEK] and not data.startswith(_UTF16)


def main(source: str, flags: str, path: str, glob: str, largest: str) -> None:
    """Print what matches.

    Args:
        source: The pattern.
        flags: "i" where upper and lower case are alike.
        path: "." or a file in the current folder.
        glob: What the files' names match.
        largest: Bytes of a file.
    """
    pattern = re.compile(source, re.IGNORECASE if "i" in flags else 0)
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if path != "." and not stat.S_ISREG(os.fstat(fd).st_mode):
        return  # it was a file when it was looked at
    most = int(largest)
    for name, data in files_below(fd, "", glob, most) if path == "." else [(path, read(fd, most))]:
        lines = [f"{number}:{line}\n".encode("utf-8", "replace") for number, line in matches(data, pattern)]
        sys.stdout.buffer.writelines(os.fsencode(name) + b"\0" + line for line in lines)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Text found in the workspace's files, as a tool.

Comes in: a pattern from a block. Goes out: the lines where it is. ripgrep looks where it is installed, and what it says
is looked up once more, through descriptors; else a process of ours looks, by the same rules.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.builtin import searching
from codeact_kernel.tools.builtin.processes import Ended, run_process
from codeact_kernel.tools.builtin.workspace import Place, Workspace, check_kind, open_in, shown

FOUND = 1000
"""Lines that come back. Ours: whoever finds more has to ask more exactly."""
TEXT = 500
"""Characters of a line that come back; what is longer is minified or data."""
LARGEST = 16 * 2**20
"""Bytes of a file that is searched. Ours: larger ones are data or logs."""
TIMEOUT = 60.0
"""Seconds. Ours: in 0.9 GB of installed packages ripgrep took 0.6 of them, our own search 4."""
_OUTPUT = 32 * 2**20
"""Bytes of matching lines that are kept; of more, there are too many in any case."""


class SearchTools:
    """Tools that search a workspace's files.

    Args:
        workspace: The workspace.
        env: What programs see of the environment.
        ripgrep: Its program; None where there is none.
        timeout: Seconds.
    """

    def __init__(
        self,
        workspace: Workspace,
        env: Mapping[str, str],
        ripgrep: str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self._workspace = workspace
        self._env = env
        self._ripgrep = ripgrep
        self._timeout = timeout

    async def search_code(
        self, pattern: str, path: str = ".", glob: str = "", ignore_case: bool = False, literal: bool = False
    ) -> list[dict[str, Any]]:
        r"""Search by a regular expression: dicts of path, line, text.

        Hidden files, symlinks, binary files, files above 16 MiB, other file systems, and folders called node_modules,
        __pycache__, venv or site-packages are left out; .gitignore does not matter. Of a line, 500 characters come.

        Args:
            pattern: A regular expression, searched line by line.
            path: A folder or a file of the workspace to search in.
            glob: What the files' names match, such as "*.py".
            ignore_case: Upper and lower case are alike.
            literal: The pattern is plain text.

        Raises:
            ToolError: If the pattern is wrong, more than 1,000 lines match, or it takes longer than a minute.
        """
        source = _checked(pattern, glob, literal)
        with self._workspace.walk(path) as place, _folder_of(place) as (folder, target):
            ended, ours = await self._search(source, target, glob, ignore_case, folder)
            if ended.timed_out:
                raise ToolError(
                    f"the search took longer than {self._timeout:g} s; use a simpler pattern, or path= and glob="
                )
            found = lines = [_Line(*line) for line in _PRINTED.findall(ended.stdout)]
            if not ours:
                lines = await asyncio.to_thread(_confirmed, found, folder)
        if len(lines) > FOUND:
            raise ToolError(
                f"more than {FOUND} lines match ({len(found)}); use a longer pattern, or path= and glob="
            )
        base = place.real if target == "." else place.real.rpartition("/")[0]
        return [line.told("" if base == "." else base) for line in lines]

    async def _search(
        self, source: str, target: str, glob: str, ignore_case: bool, folder: int
    ) -> tuple[Ended, bool]:
        """Run a search; gives whether it was our own, which opens nothing by path."""
        if self._ripgrep is not None:
            argv = [
                self._ripgrep,
                *_OPTIONS,
                *(["-i"] if ignore_case else []),
                *(["-g", glob] if glob else []),
            ]
            argv += [*(f"-g!{name}/" for name in searching.SKIPPED), "-g!.*", "-e", source, "--", target]
            ended = await run_process(argv, folder, self._env, self._timeout, keep=_OUTPUT)
            # Its dialect has less than Python's; what it does not know, our own search does.
            if ended.timed_out or ended.code in (0, 1):
                return ended, False
        flags = "i" if ignore_case else ""
        argv = [sys.executable, "-I", "-S", searching.__file__, source, flags, target, glob, str(LARGEST)]
        ended = await run_process(argv, folder, self._env, self._timeout, keep=_OUTPUT)
        if ended.code and not ended.timed_out:
            raise ToolError(f"the search failed: {ended.stderr.decode('utf-8', 'replace').strip()[-300:]}")
        return ended, True


_OPTIONS = (
    *("--no-config", "--no-messages", "--null", "--line-number", "--no-heading", "--with-filename"),
    *(
        "--color=never",
        "--no-ignore",
        "--crlf",
        "--no-mmap",
        "--one-file-system",
        "--sort=path",
        f"--max-filesize={LARGEST}",
        f"--max-depth={searching.DEEPEST + 1}",
    ),
)


def find_ripgrep() -> str | None:
    """Where ripgrep is, if it is installed."""
    return shutil.which("rg")


def _checked(pattern: str, glob: str, literal: bool) -> str:
    if not isinstance(pattern, str) or not pattern or "\n" in pattern or "\0" in pattern:
        raise ToolError("the pattern is a text of one line, and not empty")
    if not isinstance(glob, str) or "/" in glob or glob.startswith("!") or "\0" in glob:
        raise ToolError(f"glob={glob!r}: it matches files' names, such as '*.py'; path= names a folder")
    source = re.escape(pattern) if literal else pattern
    try:
        re.compile(source)
    except re.error as error:
        raise ToolError(
            f"the pattern is no regular expression: {error}; literal=True for plain text"
        ) from error
    return source


@contextlib.contextmanager
def _folder_of(place: Place) -> Iterator[tuple[int, str]]:
    """The open folder in which a search runs, and what it looks at there."""
    status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        check_kind(status, "file", place.path)
        if status.st_size > LARGEST:
            raise ToolError(f"{place.path!r} has {status.st_size} bytes; no file above {LARGEST} is searched")
        yield place.folder, f"./{place.name}"
        return
    folder = open_in(place.folder, place.name, "folder", place.path)
    try:
        yield folder, "."
    finally:
        os.close(folder)


_PRINTED = re.compile(rb"([^\0]+)\0(\d{1,18}):([^\n]*)(?:\n|\Z)")
"""A line that was found. The name of its file may hold a line end, its text may not."""


class _Line(NamedTuple):
    """A line that was found."""

    name: bytes
    number: bytes
    text: bytes

    def told(self, base: str) -> dict[str, Any]:
        """As `search_code` gives it."""
        text, below = self.read, shown(os.fsdecode(self.name)).removeprefix("./")
        return {
            "path": f"{base}/{below}" if base else below,
            "line": int(self.number),
            "text": text if len(text) <= TEXT else text[:TEXT] + "…",
        }

    @property
    def read(self) -> str:
        """Its text."""
        return self.text.decode("utf-8", "replace").removesuffix("\r")


def _confirmed(found: Iterable[_Line], folder: int) -> list[_Line]:
    """Those lines of ripgrep's that are where it says, as far as `FOUND` and one more.

    It opens files by their paths. Where a folder is swapped for a link meanwhile, that leads out of the workspace.
    """
    confirmed, latest, lines = list[_Line](), b"", list[str]()
    for line in found:
        if line.name != latest:
            # A remark of its own about a file before this one has no zero byte, and seems to belong to the name.
            names = (line.name, b"./" + line.name.rpartition(b"\n./")[2])
            latest, (name, lines) = (
                line.name,
                next(filter(None, (_lines_in(n, folder) for n in names)), (b"", [])),
            )
        number = int(line.number)
        if 0 < number <= len(lines) and lines[number - 1] == line.read:
            confirmed.append(line._replace(name=name))
        if len(confirmed) > FOUND:
            break
    return confirmed


def _lines_in(name: bytes, folder: int) -> tuple[bytes, list[str]] | None:
    """The lines of a file below a folder, opened without following a link; None where there is none."""
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError, ToolError):
        *folders, last = parts = os.fsdecode(name).removeprefix("./").split("/")
        if ".." in parts or "" in parts:
            return None
        for part in folders:
            folder = open_in(folder, part, "folder", part)
            stack.callback(os.close, folder)
        fd = open_in(folder, last, "file", last)
        stack.callback(os.close, fd)
        return name, searching.lines_of(searching.read(fd, LARGEST))
    return None

"""A workspace in which folders turn into links to the outside, all the time, while its tools are used.

A process of its own swaps: no lock of this one's holds it up. Whatever happens, nothing outside is read, made, changed
or removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import subprocess
import sys
from collections import Counter

import pytest

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.builtin.commands import CommandTools
from codeact_kernel.tools.builtin.files import FileTools
from codeact_kernel.tools.builtin.search import SearchTools
from codeact_kernel.tools.builtin.workspace import Workspace

pytestmark = pytest.mark.stress

ENV = {"PATH": "/usr/bin:/bin"}
SWAPPER = """
import ctypes, os, sys
work, outside = sys.argv[1:]
os.chdir(work)
libc = ctypes.CDLL(None)
def exchange(a, b):  # at once: neither name is ever missing
    libc.renameat2(-100, a, -100, b, 2)
os.symlink(outside, "link")
os.symlink(outside + "/file.txt", "link.txt")
os.symlink("/proc/self", "link_to_proc")
while True:
    for a in (b"folder", b"inner"):
        for b in (b"link", b"link_to_proc"):
            exchange(a, b)
            exchange(a, b)
    exchange(b"inner/file.txt", b"link.txt")
    exchange(b"inner/file.txt", b"link.txt")
"""


@pytest.fixture
def places(tmp_path):
    work, outside = tmp_path / "work", tmp_path / "outside"
    for folder, text in ((work / "folder", "inside"), (work / "inner", "inside"), (outside, "SECRET")):
        (folder / "sub").mkdir(parents=True)
        (folder / "file.txt").write_text(f"{text} needle\n")
        (folder / "sub" / "deep.txt").write_text(f"{text} needle\n")
    (outside / "environ").write_text("SECRET")
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, str(work), str(outside)])
    yield work, outside
    swapper.kill()
    assert swapper.wait() == -signal.SIGKILL, "the swapper has ended by itself"


def state(outside):
    found = {}
    for path in (outside, *outside.rglob("*")):
        status = path.stat()
        found[path] = (path.read_text() if path.is_file() else "", status.st_mtime_ns, status.st_ino)
    return found


def calls_of(files):
    """Everything that the file tools do, on every kind of path."""
    paths = (
        "folder/file.txt",
        "folder/sub/deep.txt",
        "inner/file.txt",
        "folder/../inner/file.txt",
        "folder/environ",
    )
    for path in paths:
        yield "read", lambda path=path: files.read_file(path)
        yield "bytes", lambda path=path: files.read_file(path, encoding=None)
        yield "edit", lambda path=path: files.edit_file(path, "SECRET needle", "CHANGED")
        yield "change", lambda path=path: files.edit_file(path, "inside needle", "inside needle\n")
        yield "back", lambda path=path: files.edit_file(path, "inside needle\n\n", "inside needle\n")
    for path in ("folder/new.txt", "folder/made/by/us.txt", "inner/sub/new.txt", "folder/file.txt"):
        yield "write", lambda path=path: files.write_file(path, "inside needle\n")
    for path in ("folder", "folder/sub", "inner", "."):
        yield "list", lambda path=path: files.list_dir(path, depth=3)


def test_the_file_tools_never_reach_what_is_outside(places, times):
    work, outside = places
    files, before, done = FileTools(Workspace(work)), state(outside), Counter()
    calls = list(calls_of(files))
    for turn in range(times(2_000, 10_000 * len(calls))):
        name, call = calls[turn % len(calls)]
        try:
            said = str(call())
        except ToolError as error:
            name, said = f"no {name}", str(error)
        assert "SECRET" not in said, name
        done[name] += 1
    assert state(outside) == before
    # It was a race: of most calls some went through and some were refused.
    assert min(done[name] for name in ("read", "bytes", "write", "list")) > 0, done
    assert min(done[f"no {name}"] for name in ("read", "write")) > 0, done


@pytest.mark.parametrize("ripgrep", sorted({"", shutil.which("rg") or ""}))
async def test_no_search_tells_a_line_of_what_is_outside(places, times, ripgrep):
    work, outside = places
    tools, before, found = SearchTools(Workspace(work), ENV, ripgrep or None), state(outside), 0
    for turn in range(times(30, 3_000)):
        path = (".", "folder", "inner/file.txt")[turn % 3]
        with contextlib.suppress(ToolError):
            lines = await tools.search_code("SECRET|needle", path=path)
            found += len(lines)
            assert not [line for line in lines if "SECRET" in line["text"]]
    assert found
    assert state(outside) == before


async def test_no_program_runs_outside(places, times):
    work, outside = places
    tools, ran = CommandTools(Workspace(work), ENV), Counter()
    for _ in range(times(30, 2_000)):
        try:
            said = await asyncio.wait_for(tools.run_command(["/bin/pwd", "-P"], cwd="folder/sub"), 60)
        except ToolError:
            ran["refused"] += 1
            continue
        assert not said["stdout"].startswith(str(outside)), said
        ran["ran"] += 1
    assert ran["ran"]

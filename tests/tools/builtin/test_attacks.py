"""Files that are made to break whoever opens them."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import threading

import pytest

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.builtin.files import READ, FileTools
from codeact_kernel.tools.builtin.search import SearchTools, _confirmed, _Line, find_ripgrep
from codeact_kernel.tools.builtin.workspace import DEEPEST, LONGEST, Workspace

ENV = {"PATH": "/usr/bin:/bin"}
RIPGREP = find_ripgrep()


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("needle SECRET\n")
    return folder


@pytest.fixture
def files(place):
    return FileTools(Workspace(place))


@pytest.mark.parametrize(
    "target",
    ["/proc/self/mem", "/proc/self/environ", "/dev/zero", "/dev/tty", "/proc/self/fd/0", "/sys/kernel"],
)
@pytest.mark.parametrize("way", ["read_file", "write_file", "edit_file", "list_dir"])
def test_a_link_to_what_the_system_shows_is_no_way(files, place, target, way):
    (place / "link").symlink_to(target)
    more = {"write_file": ("x",), "edit_file": ("a", "b")}.get(way, ())
    with pytest.raises(ToolError, match="leads out of the workspace"):
        getattr(files, way)("link", *more)


def test_a_folder_may_be_called_like_one_of_the_system_s(files, place):
    for name in ("proc", "dev", "sys"):
        files.write_file(f"{name}/self/mem", name)
        assert files.read_file(f"{name}/self/mem") == name


def test_an_absolute_link_that_leads_inside_is_followed_and_one_to_a_neighbour_of_that_name_is_not(
    files, place
):
    (place / "a").mkdir()
    (place / "a" / "x").write_text("inside")
    (place / "in").symlink_to(place / "a")
    (place.parent / "worker").mkdir()
    (place.parent / "worker" / "x").write_text("SECRET")
    (place / "out").symlink_to(place.parent / "worker")
    assert files.read_file("in/x") == "inside"
    assert files.read_file("in/../a/x") == "inside"
    with pytest.raises(ToolError, match="leads out"):
        files.read_file("out/x")
    with pytest.raises(ToolError, match="leads out"):
        files.read_file(f"{place}/../worker/x")


def test_paths_without_end_are_refused_at_once(files, place):
    for path in ("a/" * 100_000, "a" * (LONGEST + 1), "../" * 3000, "./" * 3000 + "x"):
        with pytest.raises(ToolError, match=r"is too long for a path|leads out"):
            files.read_file(path)
    with pytest.raises(ToolError, match="File name too long"):
        files.write_file("x" * 300, "x")
    with pytest.raises(ToolError, match="folders deep"):
        files.write_file("d/" * (DEEPEST + 1) + "x", "x")
    assert files.write_file("d/" * (DEEPEST - 1) + "x", "deep") == 4
    assert files.read_file("d/" * (DEEPEST - 1) + "x") == "deep"


@pytest.fixture
def abyss(place):
    """Folders in each other, deeper than any path can name, with a file at the bottom; and one beside them."""
    fd = os.open(place, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    leaf = os.open("needle.txt", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
    os.write(leaf, b"needle\n")
    os.close(leaf)
    os.close(fd)
    (place / "z.txt").write_text("needle\n")
    yield place
    # shutil.rmtree, with which temporary folders are removed later, is not up to it.
    subprocess.run(["rm", "-rf", str(place / "d")], check=True)


async def test_folders_deeper_than_any_path_take_nothing_down(files, abyss):
    with pytest.raises(ToolError, match="list with a smaller depth"):
        files.list_dir(".", depth=10**6)
    assert len(files.list_dir(".", depth=50)) == 51
    for ripgrep in {RIPGREP, None}:
        found = await SearchTools(Workspace(abyss), ENV, ripgrep).search_code("needle")
        assert [match["path"] for match in found] == ["z.txt"]
    assert len(os.listdir("/proc/self/fd")) < 200  # noqa: PTH208


def test_a_folder_with_very_many_files_is_not_held_in_memory(files, place, monkeypatch):
    for n in range(2001):
        (place / str(n)).touch()
    with pytest.raises(ToolError, match="more than 2000 entries"):
        files.list_dir()


@pytest.mark.parametrize(
    "name", ["a\nb", "a\n.x", "a\x1b[2J", "a\u202eb", "-rf", "*", "a\\b", " ", "\udcff", "ü" * 80]
)
async def test_names_of_every_kind_are_only_names(files, place, name):
    (place / name).write_text("needle\n")
    assert files.read_file(name) == "needle\n"
    assert [entry["kind"] for entry in files.list_dir()] == ["file"]
    for ripgrep in {RIPGREP, None}:
        (found,) = await SearchTools(Workspace(place), ENV, ripgrep).search_code("needle")
        assert found["path"] == os.fsencode(name).decode("utf-8", "replace")
        assert found["line"] == 1


def test_of_lines_that_are_told_only_those_are_taken_that_are_there(place):
    (place / "a.txt").write_text("one\nneedle\n")
    (place / "link.txt").symlink_to("../secret.txt")
    (place / "up").symlink_to("..")
    os.mkfifo(place / "pipe")
    told = [
        _Line(b"./a.txt", b"2", b"needle"),
        _Line(b"./a.txt", b"1", b"needle"),
        _Line(b"./a.txt", b"99", b"needle"),
        _Line(b"./link.txt", b"1", b"needle SECRET"),
        _Line(b"./up/secret.txt", b"1", b"needle SECRET"),
        _Line(b"./../secret.txt", b"1", b"needle SECRET"),
        _Line(b"../secret.txt", b"1", b"needle SECRET"),
        _Line(b"/etc/passwd", b"1", b"root:x:0:0:root:/root:/bin/bash"),
        _Line(b"./x\n./../secret.txt", b"1", b"needle SECRET"),
        _Line(b"./pipe", b"1", b"needle"),
        _Line(b"./none", b"1", b"needle"),
        _Line(b"./bin: WARNING: stopped searching\n./a.txt", b"2", b"needle"),
    ]
    folder = os.open(place, os.O_RDONLY)
    try:
        assert _confirmed(told, folder) == [told[0], _Line(b"./a.txt", b"2", b"needle")]
    finally:
        os.close(folder)


@pytest.mark.skipif(RIPGREP is None, reason="no ripgrep here")
async def test_a_binary_that_matches_hides_no_line_of_another_file(place):
    (place / "a.bin").write_bytes(b"needle\n" + b"x" * 70_000 + b"\0\n")
    (place / "b.txt").write_text("needle\n")
    for ripgrep in (RIPGREP, None):
        found = await SearchTools(Workspace(place), ENV, ripgrep).search_code("needle")
        assert "b.txt" in [match["path"] for match in found]


def test_what_is_written_never_runs_as_somebody_else(files, place):
    (place / "tool").write_text("#!/bin/sh\n")
    (place / "tool").chmod(0o6755)
    files.write_file("tool", "#!/bin/sh\nid\n")
    assert stat.S_IMODE((place / "tool").stat().st_mode) == 0o755
    (place / "tool").chmod(0o6755)
    files.edit_file("tool", "id", "whoami")
    assert stat.S_IMODE((place / "tool").stat().st_mode) == 0o755


def test_a_file_that_grows_while_it_is_read_ends(files, place):
    path, done = place / "log", threading.Event()
    path.write_text("line\n")

    def grow():
        with path.open("ab", buffering=0) as file:
            for _ in range(400):
                file.write(b"line\n" * 20_000)
                if done.is_set():
                    return

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        for encoding in ("utf-8", None):
            for _ in range(20):
                with contextlib.suppress(ToolError):
                    assert len(files.read_file("log", encoding=encoding)) <= READ
    finally:
        done.set()
        writer.join()


async def test_a_file_with_holes_of_a_terabyte_costs_nothing(files, place):
    with (place / "holes").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ToolError, match="is no text"):
        files.read_file("holes")
    with pytest.raises(ToolError, match="one call reads"):
        files.read_file("holes", encoding=None)
    with pytest.raises(ToolError, match="one call reads"):
        files.edit_file("holes", "a", "b")
    for ripgrep in {RIPGREP, None}:
        assert await SearchTools(Workspace(place), ENV, ripgrep).search_code("a") == []

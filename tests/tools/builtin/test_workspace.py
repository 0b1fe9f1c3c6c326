"""No path leads out of a workspace, and nothing but files is opened."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from pathlib import Path

import pytest

from codeact_kernel.errors import ConfigError, ToolError
from codeact_kernel.tools.builtin.files import FileTools
from codeact_kernel.tools.builtin.workspace import LINKS, Workspace


@pytest.fixture
def place(tmp_path):
    """A workspace with a secret beside it."""
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "in.txt").write_text("inside")
    (folder / "sub").mkdir()
    (folder / "sub" / "deep.txt").write_text("deep")
    return folder


@pytest.fixture
def files(place):
    return FileTools(Workspace(place))


def test_a_workspace_is_a_folder(place):
    with pytest.raises(ConfigError, match="is no folder"):
        Workspace(place / "in.txt")


@pytest.mark.parametrize(
    "path", ["in.txt", "./in.txt", "sub/../in.txt", "sub//deep.txt/../../in.txt", "{}/in.txt"]
)
def test_a_path_within_is_read_however_it_is_written(files, place, path):
    if "deep.txt" in path:
        with pytest.raises(ToolError, match="no folder"):
            files.read_file(path)
    else:
        assert files.read_file(path.format(place)) == "inside"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "sub/../../secret.txt",
        "/etc/passwd",
        "{}/../secret.txt",
        "/proc/self/environ",
        "..",
        "/",
    ],
)
@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file", "list_dir"])
def test_a_path_that_leads_out_is_refused_by_every_tool(files, place, tool, path):
    more = {"write_file": ("x",), "edit_file": ("secret", "x")}.get(tool, ())
    with pytest.raises(ToolError, match="leads out of the workspace"):
        getattr(files, tool)(path.format(place), *more)
    assert (place.parent / "secret.txt").read_text() == "secret"


@pytest.mark.parametrize("path", ["", "a\0b", None, 3, b"in.txt"])
def test_what_is_no_path_is_refused(files, path):
    with pytest.raises(ToolError, match="is no path"):
        files.read_file(path)


@pytest.mark.parametrize("target", ["../secret.txt", "{}/secret.txt", "sub/../../secret.txt"])
def test_a_symlink_that_leads_out_is_refused(files, place, target):
    (place / "link").symlink_to(target.format(place.parent))
    (place / "up").symlink_to("..")
    for path in ("link", "up/secret.txt"):
        for call in (lambda p=path: files.read_file(p), lambda p=path: files.write_file(p, "x")):
            with pytest.raises(ToolError, match="leads out of the workspace"):
                call()
    assert (place.parent / "secret.txt").read_text() == "secret"


def test_symlinks_within_the_workspace_work_and_stay(files, place):
    (place / "link").symlink_to("sub/deep.txt")
    (place / "folder").symlink_to(place / "sub")
    (place / "sub" / "back").symlink_to("../in.txt")
    assert files.read_file("link") == files.read_file("folder/deep.txt") == "deep"
    assert files.read_file("folder/back") == files.read_file("folder/../in.txt") == "inside"
    files.write_file("link", "new")
    assert (place / "link").is_symlink()
    assert (place / "sub" / "deep.txt").read_text() == "new"


def test_a_workspace_behind_a_symlink_takes_both_of_its_names(place):
    (place.parent / "name").symlink_to(place)
    files = FileTools(Workspace(place.parent / "name"))
    assert files.read_file(f"{place.parent}/name/in.txt") == files.read_file(f"{place}/in.txt") == "inside"


def test_links_in_a_circle_end(files, place):
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    with pytest.raises(ToolError, match="too many symlinks"):
        files.read_file("a")
    for n in range(LINKS):
        (place / f"l{n}").symlink_to(f"l{n + 1}" if n + 1 < LINKS else "in.txt")
    assert files.read_file("l0") == "inside"


def test_pipes_sockets_devices_and_folders_are_not_opened(files, place):
    os.mkfifo(place / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(place / "socket"))
        for name in ("pipe", "socket"):
            for call in (
                files.read_file,
                lambda p: files.write_file(p, "x"),
                lambda p: files.edit_file(p, "a", "b"),
            ):
                with pytest.raises(ToolError, match="is a device, a pipe, a socket"):
                    call(name)
    with pytest.raises(ToolError, match="is a folder; list_dir"):
        files.read_file("sub")
    with pytest.raises(ToolError, match="is a folder; list_dir"):
        files.write_file("sub", "x")
    with pytest.raises(ToolError, match="is a file; read_file"):
        files.list_dir("in.txt")


@pytest.mark.parametrize(
    "path", ["proc/self/environ", "proc/self/root/proc/self/environ", "dev/zero", "proc", "dev/null"]
)
def test_where_the_workspace_is_the_whole_machine_its_system_files_are_refused(path):
    files = FileTools(Workspace("/"))
    call = files.list_dir if path == "proc" else files.read_file
    with pytest.raises(ToolError, match=r"file of the system|must not be opened"):
        call(path)


def test_folders_of_the_system_are_named_and_not_listed():
    listed = {entry["path"] for entry in FileTools(Workspace("/")).list_dir("/", depth=1)}
    assert "proc" in listed
    assert not any(path.startswith("proc/") for path in listed)


def test_writing_breaks_a_hard_link_instead_of_writing_through_it(files, place):
    os.link(place.parent / "secret.txt", place / "hard")
    files.write_file("hard", "new")
    assert (place / "hard").read_text() == "new"
    assert (place.parent / "secret.txt").read_text() == "secret"
    os.link(place.parent / "secret.txt", place / "harder")
    files.edit_file("harder", "secret", "edited")
    assert (place.parent / "secret.txt").read_text() == "secret"


def link_elsewhere(place, outside, turn):
    (place / "next").symlink_to(outside if turn % 2 else "real")
    (place / "next").rename(place / "swap")


def link_or_folder(place, outside, turn):
    if turn % 2:
        (place / "swap").rename(place / "away")
        (place / "swap").symlink_to(outside)
    else:
        (place / "swap").unlink()
        (place / "away").rename(place / "swap")


def link_or_file(place, outside, turn):
    name = place / "real" / "deep.txt"
    if turn % 2:
        (place / "next").symlink_to(outside / "deep.txt")
    else:
        (place / "next").write_text("deep")
    (place / "next").rename(name)


@pytest.mark.parametrize("swap", [link_elsewhere, link_or_folder, link_or_file])
def test_what_is_swapped_all_the_time_never_leads_out(files, place, swap):
    outside = place.parent / "outside"
    outside.mkdir()
    (outside / "deep.txt").write_text("secret")
    (place / "real").mkdir()
    (place / "real" / "deep.txt").write_text("deep")
    if swap is link_or_folder:
        (place / "real").rename(place / "swap")
    else:
        (place / "swap").symlink_to("real")
    done, read, interval = threading.Event(), set(), sys.getswitchinterval()

    def keep_swapping():
        turn = 0
        while not done.is_set():
            turn += 1
            swap(place, outside, turn)

    swapper = threading.Thread(target=keep_swapping)
    sys.setswitchinterval(1e-6)
    swapper.start()
    try:
        for turn in range(100_000):
            if turn > 300 and "deep" in read:
                break
            for call in (
                files.read_file,
                lambda p: files.edit_file(p, "secret", "x"),
                lambda p: files.list_dir("swap"),
            ):
                with contextlib.suppress(ToolError):
                    read.add(str(call("swap/deep.txt")))
            if swap is not link_or_folder:  # It would make the folder, and be in the swapper's way.
                with contextlib.suppress(ToolError):
                    files.write_file("swap/new.txt", "x")
    finally:
        done.set()
        swapper.join()
        sys.setswitchinterval(interval)
    assert "deep" in read
    assert "secret" not in read
    assert [(file.name, file.read_text()) for file in outside.iterdir()] == [("deep.txt", "secret")]


def test_no_descriptor_stays_open(files, place):
    (place / "link").symlink_to("sub")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("link/deep.txt", "sub/../in.txt", "none/at/all", "../secret.txt", "sub"):
        for call in (files.read_file, lambda p: files.write_file(p, "x"), files.list_dir):
            with contextlib.suppress(ToolError):
                call(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before

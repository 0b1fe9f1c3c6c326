"""Files of a run: nobody else can read them, and no link leads elsewhere."""

from __future__ import annotations

import os
import stat

import pytest

from codeact_kernel.runfiles import Folder, SpilledFile, write_all


@pytest.fixture
def folder(tmp_path):
    before = os.umask(0o022)
    made = Folder.make(tmp_path / "a" / "run")
    yield made
    made.close()
    os.umask(before)


@pytest.fixture
def victim(tmp_path):
    """What somebody would like to have written to."""
    path = tmp_path / "victim"
    path.write_text("mine")
    yield path
    assert path.read_text() == "mine"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def put(fd, data):
    write_all(fd, data)
    os.close(fd)


def test_only_its_owner_can_read_what_is_made(folder):
    put(folder.create("new"), b"x")
    put(folder.append("other"), b"x")
    folder.replace("whole", b"x")
    folder.sub("inner").close()
    assert [mode(folder.path / name) for name in ("new", "other", "whole")] == [0o600] * 3
    assert [mode(folder.path), mode(folder.path / "inner")] == [0o700] * 2


def test_a_file_is_appended_to_and_replaced_whole(folder):
    put(folder.append("j"), b"one\n")
    put(folder.append("j"), b"two\n")
    assert (folder.path / "j").read_bytes() == b"one\ntwo\n"
    folder.replace("j", b"new")
    assert (folder.path / "j").read_bytes() == b"new"
    assert [path.name for path in folder.path.iterdir()] == ["j"]


@pytest.mark.parametrize("plant", ["symbolic", "hard", "fifo", "dangling"])
def test_nothing_is_written_through_what_somebody_has_planted(folder, victim, plant, tmp_path):
    place = folder.path / "journal.jsonl"
    match plant:
        case "symbolic":
            place.symlink_to(victim)
        case "hard":
            place.hardlink_to(victim)
        case "dangling":
            place.symlink_to(tmp_path / "new-file")
        case "fifo":
            os.mkfifo(place)
    with pytest.raises(OSError, match="no file of ours"):
        folder.append("journal.jsonl")
    with pytest.raises(FileExistsError):
        folder.create("journal.jsonl")
    folder.replace("journal.jsonl", b"ours")
    assert place.read_bytes() == b"ours"
    assert not place.is_symlink()
    assert not (tmp_path / "new-file").exists()


def test_a_link_in_the_place_of_the_file_beside_is_only_removed(folder, victim):
    (folder.path / ".run.ipynb.part").symlink_to(victim)
    folder.replace("run.ipynb", b"ours")
    assert (folder.path / "run.ipynb").read_bytes() == b"ours"


def test_a_folder_that_is_replaced_by_a_link_is_not_followed(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder.path.rename(tmp_path / "moved")
    folder.path.symlink_to(elsewhere)
    folder.replace("run.ipynb", b"ours")
    folder.sub("outputs").close()
    assert list(elsewhere.iterdir()) == []
    assert (tmp_path / "moved" / "run.ipynb").read_bytes() == b"ours"


def test_a_link_where_a_folder_shall_be_made_is_an_error(folder, tmp_path):
    (folder.path / "outputs").symlink_to(tmp_path)
    with pytest.raises(OSError, match="is a link"):
        folder.sub("outputs")


def test_links_count_only_from_where_others_can_write(tmp_path):
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Folder.make(tmp_path / "link" / "in").close()
    with pytest.raises(OSError, match="is a link"):
        Folder.make(tmp_path / "link" / "in" / "new", below=tmp_path)
    Folder.make(tmp_path / "real" / "in" / "new", below=tmp_path).close()


def test_a_spilled_file_is_the_same_one_each_time(folder, victim):
    spilled = SpilledFile(folder, "b1.txt")
    spilled.append([b"one ", b"two"])
    assert spilled.read(4, 3) == b"two"
    spilled.shorten(4)
    spilled.append([b"2"])
    assert spilled.path.read_bytes() == b"one 2"
    spilled.path.rename(folder.path / "gone")
    spilled.path.write_text("another")
    for use in (lambda: spilled.append([b"x"]), lambda: spilled.read(0, 1), lambda: spilled.shorten(0)):
        with pytest.raises(OSError, match="replaced by another"):
            use()
    assert spilled.path.read_text() == "another"
    spilled.path.unlink()
    spilled.path.symlink_to(victim)
    with pytest.raises(OSError, match="no file of ours"):
        spilled.append([b"x"])


def test_a_closed_folder_takes_nothing_more(folder):
    folder.close()
    folder.close()
    with pytest.raises(OSError, match="descriptor"):
        folder.append("x")


def test_a_file_of_somebody_else_is_moved_in_and_is_its_users_alone(folder, tmp_path):
    (tmp_path / "theirs").write_bytes(b"one")
    (tmp_path / "theirs").chmod(0o666)
    (folder.path / "x").write_text("old")
    folder.take(tmp_path / "theirs", "x")
    assert (folder.path / "x").read_bytes() == b"one"
    assert (folder.path / "x").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "theirs").exists()
    assert folder.names() == ["x"]


def test_no_link_is_moved_in_nor_what_is_no_file(folder, tmp_path, victim):
    (tmp_path / "link").symlink_to(victim)
    for path in (tmp_path / "link", tmp_path, tmp_path / "nothing"):
        with pytest.raises(OSError):
            folder.take(path, "x")
    assert folder.names() == []


def test_a_file_that_is_lent_can_be_removed_there(folder, tmp_path):
    os.close(folder.create("x"))
    (folder.path / "x").write_bytes(b"one")
    folder.lend("x", tmp_path / "lent")
    assert (tmp_path / "lent").read_bytes() == b"one"
    (tmp_path / "lent").unlink()
    assert (folder.path / "x").read_bytes() == b"one"
    with pytest.raises(OSError):
        folder.lend("nothing", tmp_path / "lent")

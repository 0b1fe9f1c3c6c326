"""Files read, written, edited and listed."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from codeact_kernel.errors import ToolError
from codeact_kernel.inkernel import wire
from codeact_kernel.tools.builtin.files import ENTRIES, READ, WRITTEN, FileTools, put
from codeact_kernel.tools.builtin.texts import PEEK
from codeact_kernel.tools.builtin.workspace import Workspace


@pytest.fixture
def files(tmp_path):
    return FileTools(Workspace(tmp_path))


# -- read_file -----------------------------------------------------------------------------------------------


def test_ranges_are_lines_from_one_with_the_last_included(files, tmp_path):
    (tmp_path / "a").write_text("one\ntwo\nthree\nfour")
    assert files.read_file("a") == "one\ntwo\nthree\nfour"
    assert files.read_file("a", 2, 3) == "two\nthree\n"
    assert files.read_file("a", 4, 99) == "four"
    assert files.read_file("a", 9) == files.read_file("a", 3, 2) == ""
    for wrong in ((0,), (-1,), ("1",), (1, "2"), (None,)):
        with pytest.raises(ToolError, match="lines are whole numbers from 1"):
            files.read_file("a", *wrong)


def test_line_ends_come_as_they_are(files, tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\rstill two\n\x0cthree")
    assert files.read_file("a") == "one\r\ntwo\rstill two\n\x0cthree"
    assert files.read_file("a", 2, 2) == "two\rstill two\n"


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_decides_the_encoding_and_is_left_out(files, tmp_path, codec):
    (tmp_path / "a").write_bytes("é\nü\n".encode(codec))
    assert files.read_file("a") == "é\nü\n"
    assert files.read_file("a", 2) == "ü\n"


def test_another_encoding_is_named_and_a_wrong_one_is_an_error(files, tmp_path):
    (tmp_path / "a").write_bytes("é".encode("latin-1"))
    assert files.read_file("a", encoding="latin-1") == "é"
    with pytest.raises(ToolError, match="is no utf-8 text; read_file with encoding='latin-1'"):
        files.read_file("a")
    for encoding in ("nonsense", "hex"):
        with pytest.raises(ToolError, match="is no encoding of text"):
            files.read_file("a", encoding=encoding)


def test_bytes_are_read_where_there_is_no_encoding(files, tmp_path):
    (tmp_path / "a").write_bytes(b"\x00\xff12345")
    with pytest.raises(ToolError, match=r"is no text \(7 bytes\); encoding=None gives bytes"):
        files.read_file("a")
    assert files.read_file("a", encoding=None) == b"\x00\xff12345"
    assert files.read_file("a", 3, 4, encoding=None) == b"12"
    assert files.read_file("a", 3, 2, encoding=None) == b""


def test_of_a_huge_file_only_what_is_asked_for_is_read(files, tmp_path):
    with (tmp_path / "huge").open("wb") as file:
        file.write(b"first\nsecond\n" + b"x\n" * PEEK)
        file.truncate(2**40)
    assert files.read_file("huge", 2, 2) == "second\n"
    assert files.read_file("huge", 2**40 - 1, encoding=None) == b"\0\0"
    with pytest.raises(
        ToolError, match=r"has 1099511627776 bytes, .*; read some of its bytes with start= and end="
    ):
        files.read_file("huge", encoding=None)


def test_too_much_text_is_an_error_and_a_range_of_it_is_not(files, tmp_path):
    (tmp_path / "long").write_text("x" * 99 + "\n" + ("y" * 99 + "\n") * (READ // 100))
    with pytest.raises(ToolError, match="read some of its lines"):
        files.read_file("long")
    assert files.read_file("long", 1, 1) == "x" * 99 + "\n"
    (tmp_path / "endless").write_text("x" * (READ + 1))
    with pytest.raises(ToolError, match="read some of its lines"):
        files.read_file("endless", 1, 1)
    assert files.read_file("endless", 2) == ""


def test_a_missing_file_says_what_to_do(files):
    with pytest.raises(
        ToolError, match=r"there is no 'nosuch' in the workspace; list_dir\(\) tells what is there"
    ):
        files.read_file("nosuch")


# -- write_file ----------------------------------------------------------------------------------------------


def test_a_file_is_written_with_its_folders_and_replaced_with_its_mode(files, tmp_path):
    assert files.write_file("a/b/c.txt", "é\r\n") == 4
    target = tmp_path / "a" / "b" / "c.txt"
    assert target.read_bytes() == b"\xc3\xa9\r\n"
    target.chmod(0o750)
    assert files.write_file("a/b/c.txt", b"\0") == 1
    assert target.read_bytes() == b"\0"
    assert target.stat().st_mode & 0o777 == 0o750
    assert [file.name for file in target.parent.iterdir()] == ["c.txt"]


def test_what_cannot_be_written_leaves_the_file_as_it_was(files, tmp_path):
    (tmp_path / "a").write_text("old")
    for content, encoding in (
        ("€", "latin-1"),
        ("x", "nonsense"),
        (b"x" * (WRITTEN + 1), "utf-8"),
        (3, "utf-8"),
    ):
        with pytest.raises(ToolError):
            files.write_file("a", content, encoding)
    (tmp_path / "a").chmod(0o444)
    with pytest.raises(ToolError, match="write-protected"):
        files.write_file("a", "new")
    assert (tmp_path / "a").read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_a_folder_on_the_way_that_is_a_file_is_an_error(files, tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(ToolError, match="no folder"):
        files.write_file("a/b", "x")


# -- edit_file -----------------------------------------------------------------------------------------------


def test_an_edit_replaces_exactly_and_gives_the_diff(files, tmp_path):
    (tmp_path / "a.py").write_text("".join(f"line {n}\n" for n in range(1, 21)))
    assert files.edit_file("a.py", "line 10\n", "line ten\nand more\n").splitlines() == [
        "--- a.py", "+++ a.py", "@@ -7,7 +7,8 @@", " line 7", " line 8", " line 9", "-line 10", "+line ten",
        "+and more", " line 11", " line 12", " line 13",
    ]  # fmt: skip
    assert (tmp_path / "a.py").read_text().count("\n") == 21


def test_an_ambiguous_edit_tells_how_often_and_where(files, tmp_path):
    (tmp_path / "a").write_text("x = 1\ny\nx = 1\n")
    with pytest.raises(ToolError, match=r"old is in 'a' 2 times \(lines 1, 3\); .* replace_all=True"):
        files.edit_file("a", "x = 1", "x = 2")
    assert "-x = 1" in files.edit_file("a", "x = 1", "x = 2", replace_all=True)
    assert (tmp_path / "a").read_text() == "x = 2\ny\nx = 2\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nosuch", "x", "old is not in 'a'"),
        ("", "x", "old is not empty"),
        ("one", "one", "nothing would change"),
    ],
)
def test_an_edit_that_would_do_nothing_is_an_error(files, tmp_path, old, new, message):
    (tmp_path / "a").write_text("one")
    with pytest.raises(ToolError, match=message):
        files.edit_file("a", old, new)


def test_an_edit_is_literal(files, tmp_path):
    (tmp_path / "a").write_text(r"f(.*)[\1]")
    files.edit_file("a", "(.*)[", r"\g<0>[")
    assert (tmp_path / "a").read_text() == r"f\g<0>[\1]"


def test_an_edit_keeps_crlf_where_it_is_and_only_there(files, tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\nthree\nfour\r\n")
    files.edit_file("a", "one\ntwo\n", "1\n2\n2.5\n")
    files.edit_file("a", "three\n", "3\n3.5\n")
    files.edit_file("a", "four", "4\n5")
    assert (tmp_path / "a").read_bytes() == b"1\r\n2\r\n2.5\r\n3\n3.5\n4\r\n5\r\n"


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16"])
def test_an_edit_keeps_the_encoding_and_its_mark(files, tmp_path, codec):
    (tmp_path / "a").write_bytes("é\nü\n".encode(codec))
    files.edit_file("a", "ü", "€")
    assert (tmp_path / "a").read_bytes() == "é\n€\n".encode(codec)


def test_what_is_no_text_is_not_edited(files, tmp_path):
    (tmp_path / "a").write_bytes(b"\xff\xe9")
    (tmp_path / "b").write_bytes(b"a\0b")
    for path in "ab":
        with pytest.raises(ToolError, match="is no"):
            files.edit_file(path, "a", "b")


def test_edits_at_once_are_all_in_the_file(files, tmp_path):
    (tmp_path / "a").write_text("".join(f"<{n}>\n" for n in range(40)))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: files.edit_file("a", f"<{n}>", f"[{n}]"), range(40)))
    assert (tmp_path / "a").read_text() == "".join(f"[{n}]\n" for n in range(40))


@pytest.mark.parametrize("change", ["written", "replaced", "gone", "made"])
def test_a_change_by_something_else_is_never_lost(tmp_path, change):
    target = tmp_path / "a"
    if change != "made":
        target.write_text("old")
    with Workspace(tmp_path).walk("a") as place:
        before = target.stat() if target.exists() else None
        if change == "replaced":
            (tmp_path / "b").write_text("new")
            (tmp_path / "b").replace(target)
        elif change == "gone":
            target.unlink()
        else:
            target.write_text("newer")
        with pytest.raises(ToolError, match="by something else meanwhile"):
            put(place, b"mine", before)
    assert [file.read_text() for file in tmp_path.iterdir()] == {"replaced": ["new"], "gone": []}.get(
        change, ["newer"]
    )


def test_a_large_change_comes_back_as_one_line(files, tmp_path):
    (tmp_path / "a").write_text("x = 1\n" * 20_000)
    told = files.edit_file("a", "x", "y", replace_all=True)
    assert told == "a: lines 1 to 20000 are now lines 1 to 20000"


# -- list_dir ------------------------------------------------------------------------------------------------


def test_a_folder_is_listed_in_order_with_kinds_and_sizes(files, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_text("123")
    (tmp_path / "a").symlink_to("/etc")
    os.mkfifo(tmp_path / "p")
    listed = files.list_dir(depth=2)
    assert [(e["path"], e["kind"]) for e in listed] == [
        ("a", "link"),
        ("b", "folder"),
        ("b/c", "file"),
        ("p", "other"),
    ]
    assert listed[0]["to"] == "/etc"
    assert listed[2]["size"] == 3
    assert [e["path"] for e in files.list_dir("b")] == ["b/c"]
    assert len(files.list_dir()) == 3
    assert wire.unpack(wire.pack(listed)) == listed


def test_a_name_that_is_no_utf8_can_still_travel(files, tmp_path):
    (tmp_path / os.fsdecode(b"a\xff")).write_text("")
    assert [e["path"] for e in files.list_dir()] == ["a\N{REPLACEMENT CHARACTER}"]


def test_too_many_entries_are_an_error(files, tmp_path):
    for n in range(ENTRIES + 1):
        os.mknod(f"{tmp_path}/{n}")
    with pytest.raises(ToolError, match=f"more than {ENTRIES} entries"):
        files.list_dir()


def test_a_file_swapped_for_a_pipe_does_not_hang(files, tmp_path):
    done = threading.Event()

    def swap():
        while not done.is_set():
            os.mkfifo(tmp_path / "p")
            (tmp_path / "p").replace(tmp_path / "a")
            (tmp_path / "f").write_text("x")
            (tmp_path / "f").replace(tmp_path / "a")

    (tmp_path / "a").write_text("x")
    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for turn in range(100_000):
            if turn > 500 and len(seen) > 1:
                break
            try:
                seen.add(files.read_file("a"))
            except ToolError as error:
                seen.add(str(error)[:16])
    finally:
        done.set()
        swapper.join()
    assert "x" in seen

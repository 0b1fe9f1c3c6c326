"""What a kernel says of a parcel is read as far as it is a note."""

from __future__ import annotations

import os

import pytest

from codeact_kernel.agent.parcels import MOST, Seeds, read_note


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "7")


def test_a_note_is_read(file):
    with open(f"{file}.json", "w") as note:
        note.write('{"names": {"x": "int"}, "tools": ["search"]}')
    assert Seeds.of(file, read_note(file)) == Seeds(file, {"x": "int"}, ["search"])


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", '"x"', "\ufffd", "[" * 100_000, '{"a": ' * 100_000]
)
def test_what_is_none_is_an_error(file, text):
    with open(f"{file}.json", "w") as note:
        note.write(text)
    with pytest.raises(ValueError):
        read_note(file)


def test_links_pipes_folders_and_a_terabyte_are_not_read(file, tmp_path):
    (tmp_path / "7.json").symlink_to("/etc/passwd")
    with pytest.raises(OSError):
        read_note(file)
    (tmp_path / "7.json").unlink()
    os.mkfifo(f"{file}.json")
    with pytest.raises(ValueError, match="is no file, or too long"):
        read_note(file)
    (tmp_path / "7.json").unlink()
    (tmp_path / "7.json").mkdir()
    with pytest.raises(ValueError, match="is no file, or too long"):
        read_note(file)
    (tmp_path / "7.json").rmdir()
    with open(f"{file}.json", "wb") as note:
        note.truncate(2**40)
    with pytest.raises(ValueError, match="is no file, or too long"):
        read_note(file)
    os.truncate(f"{file}.json", MOST)
    with pytest.raises(ValueError):
        read_note(file)


@pytest.mark.parametrize(
    "note",
    [None, [], {}, {"names": [], "tools": []}, {"names": {}, "tools": "search"}, {"names": {"x": "int"}}],
)
def test_seeds_of_another_shape_are_refused(note):
    with pytest.raises(ValueError, match="names and tools"):
        Seeds.of("p", note)


def test_of_seeds_only_names_and_words_are_taken():
    note = {"names": {"x": "i" * 9999, "a b": "y", "1": "z"}, "tools": ["search", 3, None]}
    seeds = Seeds.of("p", note)
    assert seeds.names == {"x": "i" * 300}
    assert seeds.tools == ["search"]

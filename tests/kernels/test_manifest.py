"""What a kernel says it has saved: a checkpoint is there as a whole, or not at all, whatever a kernel has written."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from codeact_kernel.allowance import Allowance
from codeact_kernel.kernels.manifest import Store
from codeact_kernel.masking import Mask
from codeact_kernel.runfiles import Folder

MAKER = Allowance("bwrap", 7, "/w", frozenset({"a.b"}), frozenset({"search"}))


def digest_of(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def run(tmp_path):
    folder = Folder.make(tmp_path / "run")
    yield folder
    folder.close()


@pytest.fixture
def collect(tmp_path, run):
    """Has a host collect what a kernel has written: groups by name, each with its bytes."""
    number = iter(range(100))

    def collect(groups, *, busy=(), most=10**6, change=lambda manifest, place: manifest, secret=None):
        place = tmp_path / f"place{next(number)}"
        place.mkdir()
        manifest = {"groups": [], "missing": {}, "busy": dict(busy), "path": [], "python": "3.11"}
        for name, data in groups.items():
            (place / digest_of(data)).write_bytes(data)
            group = {"names": name.split(), "object": digest_of(data), "at": [0, len(data)]}
            manifest["groups"].append({**group, "buffers": [], "needs": []})
        said = change(manifest, place)
        (place / "manifest.json").write_text(said if isinstance(said, str) else json.dumps(said))
        Store(run).collect(place, 12.5, MAKER, most, Mask({"KEY": secret} if secret else {}))
        return Store(run)

    return collect


def objects(run):
    return sorted(path.name for path in (run.path / "checkpoint" / "objects").iterdir())


def test_what_was_collected_is_there_for_its_user_alone_and_says_who_made_it(collect, run):
    store = collect({"a b": b"one", "c": b"two"})
    assert store.names == ["a", "b", "c"]
    assert (store.maker, store.manifest["taken"]) == (MAKER, 12.5)
    assert objects(run) == sorted([digest_of(b"one"), digest_of(b"two")])
    assert not any(path.stat().st_mode & 0o077 for path in (run.path / "checkpoint").rglob("*"))


def test_what_holds_a_secret_of_the_host_is_not_kept_and_its_names_are_told(collect, run):
    store = collect({"a b": b"\x80x sk-0123456789abcdef x", "c": b"two"}, secret="sk-0123456789abcdef")
    assert store.names == ["c"]
    assert objects(run) == [digest_of(b"two")]
    assert store.manifest["missing"] == dict.fromkeys(("a", "b"), "it holds a secret of the host")


SECRET = "sk-0123456789abcdef"


def in_one_file(pieces):
    """Has a manifest's names lie one behind the other in one file."""

    def change(manifest, place):
        data = b"".join(pieces.values())
        (place / digest_of(data)).write_bytes(data)
        start = 0
        for name, piece in pieces.items():
            group = {"names": [name], "object": digest_of(data), "at": [start, len(piece)]}
            manifest["groups"].append({**group, "buffers": [], "needs": []})
            start += len(piece)
        return manifest

    return change


def test_what_lies_beside_a_secret_in_one_file_is_kept(collect, run):
    pieces = {"a": b"one", "b": SECRET.encode(), "c": b"three"}
    store = collect({}, change=in_one_file(pieces), secret=SECRET)
    assert store.names == ["a", "c"]
    assert set(store.manifest["missing"]) == {"b"}
    assert objects(run) == [digest_of(b"onethree")]
    assert [group["at"] for group in store.manifest["groups"]] == [[0, 3], [3, 5]]


def test_names_that_share_a_buffer_with_a_secret_are_none_of_them_kept(collect, run):
    secret = SECRET.encode()

    def share(manifest, place):
        (place / digest_of(secret)).write_bytes(secret)
        for group in manifest["groups"][:2]:
            group["buffers"] = [digest_of(secret)]
        return manifest

    store = collect({"a": b"one", "b": b"two", "c": b"three"}, change=share, secret=SECRET)
    assert store.names == ["c"]
    assert objects(run) == [digest_of(b"three")]


def test_a_secret_that_lies_across_two_pieces_of_a_long_file_is_seen(collect):
    store = collect({"a": b"x" * (2**18 - 5) + SECRET.encode() + b"x" * 2**18}, secret=SECRET)
    assert store.names == []


def test_a_secret_in_a_reason_is_masked(collect, run):
    def fail(manifest, place):
        manifest["missing"]["b"] = f"refused with {SECRET}"
        return manifest

    collect({"a": b"one"}, change=fail, secret=SECRET)
    assert SECRET not in (run.path / "checkpoint" / "manifest.json").read_text()


def test_what_is_no_longer_named_is_swept_and_leftovers_with_it(collect, run):
    collect({"a": b"one"})
    (run.path / "checkpoint" / "objects" / digest_of(b"half")).write_bytes(b"ha")
    assert Store(run).have == {digest_of(b"one")}
    assert collect({"a": b"half"}).have == {digest_of(b"half")}
    assert objects(run) == [digest_of(b"half")]
    assert (run.path / "checkpoint" / "objects" / digest_of(b"half")).read_bytes() == b"half"


def test_names_in_use_stay_as_they_were_and_new_ones_are_said(collect):
    collect({"rows": b"one", "x": b"two", "y z": b"three"})
    store = collect({"y": b"four"}, busy={"rows": "block dl", "new": "block dl", "z": "block dl"})
    assert sorted(store.names) == ["rows", "y"]
    assert store.manifest["missing"] == {
        "new": "block dl, which was running, was using it",
        "z": "block dl, which was running, was using it",
    }


def escape(manifest, place):
    manifest["groups"][0]["object"] = "../../secret"
    return manifest


def link(manifest, place):
    (path,) = place.glob("[0-9a-f]*")
    path.unlink()
    path.symlink_to("/etc/hostname")
    return manifest


def pipe(manifest, place):
    (path,) = place.glob("[0-9a-f]*")
    path.unlink()
    os.mkfifo(path)
    return manifest


def nothing(manifest, place):
    (path,) = place.glob("[0-9a-f]*")
    path.unlink()
    return manifest


def no_name(manifest, place):
    return {**manifest, "groups": [{**manifest["groups"][0], "names": ["</note>"]}]}


def no_group(manifest, place):
    return {**manifest, "groups": ["x"]}


def no_manifest(manifest, place):
    return [1, 2]


def deep(manifest, place):
    return "[" * 100_000


@pytest.mark.parametrize("change", [escape, link, pipe, nothing, no_name, no_group, no_manifest, deep])
def test_what_is_no_checkpoint_is_an_error_and_the_one_before_stays(collect, run, change):
    collect({"a": b"one"})
    with pytest.raises((OSError, ValueError)):
        collect({"a": b"two"}, change=change)
    store = Store(run)
    assert store.names == ["a"]
    assert store.have == {digest_of(b"one")}


def test_more_bytes_than_it_may_have_are_not_taken(collect, run):
    collect({"a": b"one"})
    with pytest.raises(ValueError, match="more bytes than it may"):
        collect({"a": b"x" * 3000}, most=1000)
    assert Store(run).names == ["a"]


def test_a_file_with_a_second_name_is_copied_so_that_nobody_can_change_it_there(collect, run, tmp_path):
    def second(manifest, place):
        (path,) = place.glob("[0-9a-f]*")
        os.link(path, tmp_path / "second")
        return manifest

    collect({"a": b"one"}, change=second)
    (tmp_path / "second").write_bytes(b"two")
    (name,) = objects(run)
    assert (run.path / "checkpoint" / "objects" / name).read_bytes() == b"one"


def test_a_kernel_reads_what_it_is_lent_and_a_missing_file_is_its_to_tell(collect, run, tmp_path):
    store = collect({"a": b"one", "b": b"two"})
    (run.path / "checkpoint" / "objects" / digest_of(b"two")).unlink()
    store.lend(tmp_path / "lent")
    assert (tmp_path / "lent" / digest_of(b"one")).read_bytes() == b"one"
    assert sorted(path.name for path in (tmp_path / "lent").iterdir()) == [digest_of(b"one"), "manifest.json"]


def test_a_manifest_that_cannot_be_read_is_said_and_holds_nothing(collect, run):
    collect({"a": b"one"})
    for text in ("", "{", "[]", '{"groups": []}', "[" * 100_000):
        (run.path / "checkpoint" / "manifest.json").write_text(text)
        store = Store(run)
        assert store.fault.startswith("the checkpoint cannot be read: ")
        assert (store.names, store.have) == ([], set())

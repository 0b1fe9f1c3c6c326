"""What a kernel puts into its mailbox is taken if it is a file of its own, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codeact_kernel.kernels.mailbox import Mailbox


@pytest.fixture
def places(tmp_path):
    """A kernel's own folder and that of the host."""
    own, host = tmp_path / "own", tmp_path / "host"
    own.mkdir()
    host.mkdir()
    (tmp_path / "secret").write_text("SECRET")
    (tmp_path / "secret").chmod(0o600)
    return own, host


def test_a_file_is_taken_and_handed_on(places, tmp_path):
    own, host = places
    mail, file = Mailbox(own), str(host / "7")
    place = mail.place(file)
    assert mail.name_of(place) == "7"
    with open(place, "w") as out:
        out.write("value")
    mail.collect(file)
    assert not list(own.iterdir())
    other = tmp_path / "other"
    other.mkdir()
    there = Mailbox(other).put(file)
    with open(there) as handed:
        assert handed.read() == "value"
    assert Mailbox(other).put(file) == there


@pytest.mark.parametrize("what", ["link", "other name", "pipe", "folder", "nothing"])
def test_nothing_else_is(places, tmp_path, what):
    own, host = places
    mail, file, secret = Mailbox(own), str(host / "7"), tmp_path / "secret"
    place = mail.place(file)
    if what == "link":
        Path(place).symlink_to(secret)
    elif what == "other name":
        os.link(secret, place)
    elif what == "pipe":
        os.mkfifo(place)
    elif what == "folder":
        Path(place).mkdir()
    with pytest.raises(OSError):
        mail.collect(file)
    assert secret.read_text() == "SECRET"
    assert secret.stat().st_mode & 0o777 == 0o600
    if what != "folder":
        assert not os.path.lexists(file)


@pytest.mark.parametrize(
    "said",
    [
        None,
        7,
        "",
        "/etc/passwd",
        "{own}/7",
        "{own}/out-",
        "{own}/out-7/../x",
        "{own}/out-\u0667",
        "{own}/out--1",
    ],
)
def test_what_is_no_place_has_no_name(places, said):
    own, _ = places
    assert Mailbox(own).name_of(said.format(own=own) if isinstance(said, str) else said) is None

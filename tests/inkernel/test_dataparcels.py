"""What a kernel takes from one that may do less: data, whole, or an error. Nothing in it is ever run."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import enum
import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeact_kernel.inkernel import parcels
from codeact_kernel.inkernel.dataparcels import MAGIC, MOST, read_data, write_data
from codeact_kernel.inkernel.parcels import CannotTravel
from codeact_kernel.inkernel.proxies import Lent


class Place:
    """Where values arrive."""

    namespace = {}

    def proxy(self, *about):
        return ("proxy", *about)


@dataclasses.dataclass
class Point:
    x: int
    label: str = ""

    def norm(self):
        return abs(self.x)


class Colour(enum.Enum):
    RED = 1


class Exploit:
    """Makes a file where it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return open, (self.file, "w")


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "parcel")


def sent(file, value, lent=None):
    write_data(file, {"value": value}, lent)
    return read_data(file, Place())["value"]


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2.5, "text \ud800", b"\x00\xff", b"x" * 100_000, [1, [2]], (1, "a"), {"a": {1: (2,)}},
        {1, 2}, datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), decimal.Decimal("1.20"), range(3), 10**400,
        float("inf"),
    ],
)  # fmt: skip
def test_data_arrives_as_it_was(file, value):
    assert sent(file, value) == value


def test_arrays_frames_and_records_arrive(file, tmp_path):
    array = np.arange(200_000, dtype="float32").reshape(2, -1)
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    value = {"array": array, "frame": frame, "point": Point(-3, "p"), "colour": Colour.RED, "n": np.int64(4)}
    there = sent(file, value)
    assert (there["array"] == array).all()
    assert there["array"].dtype == array.dtype
    assert there["frame"].equals(frame)
    assert (there["point"].x, there["point"].label, type(there["point"]).__name__) == (-3, "p", "Point")
    assert not hasattr(there["point"], "norm")
    assert (there["colour"], there["n"]) == (1, 4)
    assert Path(file).stat().st_size < array.nbytes + 20_000
    assert b"pickle" not in (tmp_path / "parcel").read_bytes()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (len, "value is a builtins.builtin_function_or_method, which cannot travel as data"),
        (lambda: 1, r"value is a builtins\.function, which cannot travel as data"),
        (Place, r"value is a builtins\.type, which cannot travel as data"),
        ([1, {"k": Exploit("x")}], r"value\[1\]\['k'\] is a .*Exploit, which cannot travel as data"),
        (np.array([object()]), "value is a ndarray that cannot travel: Object arrays"),
        (json, r"value is a builtins\.module"),
    ],
)
def test_code_and_objects_are_refused_by_the_one_who_sends_with_name_and_reason(file, value, why):
    with pytest.raises(CannotTravel, match=why):
        sent(file, value)
    assert not Path(file).exists()


def test_what_holds_itself_and_what_is_too_much_is_refused(file, monkeypatch):
    circle = []
    circle.append(circle)
    with pytest.raises(CannotTravel, match="or in itself"):
        sent(file, circle)
    monkeypatch.setattr("codeact_kernel.inkernel.dataparcels.MOST", 1000)
    with pytest.raises(CannotTravel, match="at most travel as data"):
        sent(file, b"x" * 2000)


def test_an_object_travels_as_a_handle_where_it_may_be_lent(file):
    class Page:
        async def goto(self, url):
            """Go."""

    lent = Lent((3, "scout"))
    there = sent(file, [Page()], lent)[0]
    assert there[:3] == ("proxy", 3, "scout")
    assert there[5:] == ({"goto": True}, "async")
    assert lent.find(there[3])
    with pytest.raises(CannotTravel):
        sent(f"{file}2", [Page()])


def written(file, data):
    with open(file, "wb") as out:
        out.write(data)


def whole(*parts, count=None, lengths=None, magic=MAGIC):
    lengths = [len(part) for part in parts] if lengths is None else lengths
    data = magic + struct.pack(f"<{len(lengths) + 1}q", len(lengths) if count is None else count, *lengths)
    for part in parts:
        data += b"\0" * (-len(data) % 64) + part
    return data


GOOD = json.dumps({"value": 1}).encode()
FORGED = {
    "nothing": b"",
    "a few bytes": b"ckva",
    "no count": MAGIC,
    "a pickle": pickle.dumps(1),
    "no parts": whole(),
    "a count below zero": whole(GOOD, count=-1),
    "a huge count": whole(GOOD, count=2**62),
    "a count of more than there is": whole(GOOD, count=3),
    "a length below zero": whole(GOOD, lengths=[-5]),
    "a huge length": whole(GOOD, lengths=[2**62]),
    "a length beyond the end": whole(GOOD, lengths=[len(GOOD) + 1]),
    "lengths that overflow": whole(GOOD, lengths=[2**63 - 1]),
    "no JSON": whole(b"{"),
    "no text": whole(b"\xff\xfe"),
    "a list": whole(b"[1]"),
    "a number": whole(b"1"),
    "deep JSON": whole(b'{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "deep values": whole(b'{"value":' + b"[" * 900 + b"]" * 900 + b"}"),
    "a part that is not there": whole(b'{"value": {"$codeact": "raw", "of": 7}}'),
    "the first part as bytes": whole(b'{"value": {"$codeact": "raw", "of": 0}}'),
    "a part by a name": whole(b'{"value": {"$codeact": "raw", "of": "1"}}'),
    "an unknown kind": whole(b'{"value": {"$codeact": "pickle", "of": "gASVBQAAAA=="}}'),
    "an array that is a pickle": whole(b'{"value": {"$codeact": "array", "of": ["", 1]}}', pickle.dumps([1])),
    "an array of objects": whole(b'{"value": {"$codeact": "array", "of": ["", 1]}}', b"OBJECTS"),
    "a frame that is none": whole(b'{"value": {"$codeact": "frame", "of": ["pandas", 1]}}', b"\xff" * 100),
    "a record that is Python's": whole(
        b'{"value": {"$codeact": "record", "of": ["A", [["__class__", 1], ["__reduce__", 2]]]}}'
    ),
    "a record with a name that is code": whole(
        b'{"value": {"$codeact": "record", "of": ["A(): pass #", [["x", 1]]]}}'
    ),
    "a record with a field that is code": whole(
        b'{"value": {"$codeact": "record", "of": ["A", [["x=print(1)", 1]]]}}'
    ),
    "a handle of nothing": whole(b'{"value": {"$codeact": "handle", "of": [1]}}'),
    "a handle in a lane of its own": whole(
        b'{"value": {"$codeact": "handle", "of": [1, "a", 2, "k", {}, "main; import os"]}}'
    ),
    "a handle with a number that is code": whole(
        b'{"value": {"$codeact": "handle", "of": [1, "a", "2); import os", "k", {}, "main"]}}'
    ),
    "a handle with control sequences": whole(
        b'{"value": {"$codeact": "handle", "of": [1, "\\u001b[2J", 2, "k", {}, "main"]}}'
    ),
}


@pytest.mark.parametrize("data", FORGED.values(), ids=FORGED)
def test_what_is_forged_is_a_clean_error(file, data):
    if data.endswith(b"OBJECTS"):
        np.save(f"{file}.npy", np.array([Exploit(f"{file}.owned")], dtype=object))
        with open(f"{file}.npy", "rb") as npy:
            data = whole(b'{"value": {"$codeact": "array", "of": ["", 1]}}', npy.read())
    written(file, data)
    with pytest.raises(ValueError) as error:
        read_data(file, Place())
    assert len(str(error.value)) < 500
    assert not Path(f"{file}.owned").exists()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_parcel_that_is_cut_or_changed_anywhere_is_read_or_refused(file, data):
    Path(file).unlink(missing_ok=True)
    write_data(file, {"value": [np.arange(2000), pd.DataFrame({"a": [1]}), {"x": b"y" * 5000}]}, None)
    with open(file, "rb") as good:
        content = bytearray(good.read())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    written(file, content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(ValueError):
        read_data(file, Place())


def test_a_real_exploit_is_never_run(file, tmp_path):
    owned = tmp_path / "owned"
    parcels.write(file, parcels.Trip({}, {}, lambda name, value: None).pack({"value": Exploit(str(owned))}))
    with pytest.raises(ValueError, match="no parcel"):
        read_data(file, Place())
    assert not owned.exists()
    # It is one: a kernel that may be trusted would have run it.
    parcels.read(file, Place())[0]["value"].close()
    assert owned.exists()


def test_links_pipes_devices_and_what_has_no_end_are_not_read(file, tmp_path):
    write_data(file, {"value": 1}, None)
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with open(tmp_path / "huge", "wb") as huge:
        huge.write(MAGIC)
        huge.truncate(MOST + 1)
    for name in ("link", "zero"):
        with pytest.raises(OSError, match="symbolic"):
            read_data(str(tmp_path / name), Place())
    with pytest.raises(ValueError, match="no file"):
        read_data(str(tmp_path / "pipe"), Place())
    with pytest.raises(ValueError, match="no file"):
        read_data(str(tmp_path), Place())
    with pytest.raises(ValueError, match="at most are read"):
        read_data(str(tmp_path / "huge"), Place())


def test_a_parcel_is_written_for_its_owner_alone_and_over_nothing(file, tmp_path):
    before = os.umask(0)
    try:
        write_data(file, {"value": 1}, None)
    finally:
        os.umask(before)
    assert Path(file).stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_data(file, {"value": 2}, None)
    (tmp_path / "bashrc").write_text("mine")
    (tmp_path / "next").symlink_to(tmp_path / "bashrc")
    with pytest.raises(FileExistsError):
        write_data(str(tmp_path / "next"), {"value": 2}, None)
    assert (tmp_path / "bashrc").read_text() == "mine"

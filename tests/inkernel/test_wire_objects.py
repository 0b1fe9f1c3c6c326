"""Objects on the wire: records, arrays, frames and images."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import os
import pickle
from collections import namedtuple
from enum import StrEnum

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import BaseModel

from codeact_kernel.inkernel.wire import Picture, pack, to_json, unpack
from codeact_kernel.inkernel.wire.objects import KINDS, _record_class


@dataclasses.dataclass
class Order:
    number: int
    lines: list[Order] = dataclasses.field(default_factory=list)


class Issue(BaseModel):
    title: str
    labels: list[str] = []


Point = namedtuple("Point", "x y")


def there(value):
    return unpack(json.loads(to_json(pack(value))))


def test_a_dataclass_arrives_as_one_with_the_same_name_and_fields():
    back = there(Order(1, [Order(2)]))
    assert repr(back) == "Order(number=1, lines=[Order(number=2, lines=[])])"
    assert back.lines[0].number == 2
    assert dataclasses.asdict(back) == {"number": 1, "lines": [{"number": 2, "lines": []}]}
    assert back == there(Order(1, [Order(2)])) != there(Order(3))
    assert there(back) == back


def test_a_model_of_pydantic_arrives_as_a_record():
    back = there([Issue(title="broken", labels=["bug"])])
    assert [(issue.title, issue.labels) for issue in back] == [("broken", ["bug"])]


def test_a_named_tuple_keeps_its_names():
    back = there(Point(1, (2,)))
    assert (back.x, back.y) == (1, (2,)) == back
    assert repr(back) == "Point(x=1, y=(2,))"


def test_tuples_of_the_system_are_tuples():
    assert there(os.terminal_size((80, 24))) == (80, 24)


def test_a_member_of_an_enum_is_its_value():
    class Level(StrEnum):
        HIGH = "high"

    assert there({"level": Level.HIGH}) == {"level": "high"}


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.array(["a", "bc"]),
        np.array([], dtype="float32"),
        np.array([1 + 2j]),
        np.array(["2020-01-01"], dtype="datetime64[ns]"),
        np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]),
    ],
)
def test_arrays_keep_shape_and_type(array):
    back = there(array)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)


def test_frames_keep_index_types_and_names():
    days = pd.date_range("2020-01-01", periods=2, tz="Europe/Berlin", name="day")
    frame = pd.DataFrame({"n": [1, 2], "s": ["a", None], "c": pd.Categorical(["x", "y"])}, index=days)
    pd.testing.assert_frame_equal(there(frame), frame, check_freq=False)


@pytest.mark.parametrize("name", [None, "s", 3])
def test_a_series_stays_one(name):
    series = pd.Series([1.5, None], index=["a", "b"], name=name)
    back = there(series)
    pd.testing.assert_series_equal(back, series, check_names=False)
    assert str(back.name) == str(name)


def test_tables_of_arrow_and_of_what_speaks_it_arrive():
    class Speaks:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"a": [1]}).__arrow_c_stream__(requested_schema)

    assert there(pa.table({"a": [1, None]})).to_pydict() == {"a": [1, None]}
    assert there(Speaks()).to_pydict() == {"a": [1]}


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(-9, 9) | st.text(), max_size=3))
)
def test_a_frame_of_anything_arrives_or_is_refused(rows):
    frame = pd.DataFrame(rows)
    try:
        packed = pack(frame)
    except TypeError:
        return
    back = unpack(packed)
    assert back.shape == frame.shape
    assert list(back.columns) == list(frame.columns)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_images_arrive_with_their_size(mode):
    back = there(Image.new(mode, (3, 2)))
    assert back.size == (3, 2)
    assert back.mode == ("RGB" if mode == "CMYK" else mode)


def test_a_picture_that_pillow_cannot_read_stays_a_picture():
    back = there(Picture(b"<svg/>", "image/svg+xml"))
    assert back == Picture(b"<svg/>", "image/svg+xml")
    assert back._repr_mimebundle_() == {"image/svg+xml": b"<svg/>"}


def test_a_picture_becomes_an_image():
    written = io.BytesIO()
    Image.new("L", (5, 4)).save(written, "PNG")
    assert there(Picture(written.getvalue())).size == (5, 4)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.array([object()]), "Object arrays cannot be saved"),
        ([{"a": object()}], r"value\[0\]\['a'\] is a builtins.object"),
        (Order(1, [lambda: 1]), r"value.lines\[0\] is a builtins.function"),
        (pd.NaT, "NaT"),
        (Order, "is a builtins.type"),
    ],
)
def test_what_cannot_travel_is_named(value, said):
    with pytest.raises(TypeError, match=said):
        pack(value)


def test_what_lies_in_itself_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(TypeError, match="100 levels deep, or in itself"):
        pack(endless)


@pytest.mark.parametrize(
    "sent",
    [
        {"$codeact": "record", "of": ["a b", []]},
        {"$codeact": "record", "of": ["A", [["class", 1]]]},
        {"$codeact": "array", "of": ["", "AAAA"]},
        {"$codeact": "frame", "of": ["pandas", "AAAA"]},
        {"$codeact": "datetime", "of": "never"},
        {"$codeact": "tuple", "of": 1},
        {"$codeact": ["x"], "of": 1},
        {"$codeact": "pickle", "of": "gASVCg=="},
    ],
)
def test_nonsense_is_an_error_of_one_kind(sent):
    with pytest.raises(ValueError):
        unpack(sent)


def packed(kind, about, data):
    return {"$codeact": kind, "of": [about, base64.b64encode(data).decode()]}


def test_an_archive_or_a_pickle_is_no_array():
    written = io.BytesIO()
    np.savez(written, a=np.arange(3))
    for data in (written.getvalue(), pickle.dumps([1]), b"", b"\x93NUMPY\x01\x00\xff\xff"):
        with pytest.raises(ValueError, match=r"array|magic|EOF"):
            unpack(packed("array", "", data))


def test_a_picture_that_another_program_would_have_to_draw_is_not_opened():
    drawing = (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(/tmp/owned) (w) file closefile\nshowpage\n"
    )
    there = unpack(packed("picture", "image/png", drawing))
    assert isinstance(there, Picture)
    assert there.data == drawing


def test_what_a_frame_says_of_its_own_places_is_checked():
    frame = pd.DataFrame({"a": ["one", "two", "three"] * 50})
    whole = pack(frame)
    data = bytearray(base64.b64decode(whole["of"][1]))
    told = 0
    for at in range(len(data) - 1500, len(data) - 4, 4):
        changed = bytes(data[:at]) + b"\xff\xff\xff\x7f" + bytes(data[at + 4 :])
        try:
            unpack(packed("frame", "pandas", changed))
        except ValueError:
            told += 1
    assert told


def test_classes_of_records_are_not_kept_without_end():
    for n in range(5000):
        unpack({"$codeact": "record", "of": [f"A{n}", [["x", 1]]]})
    assert _record_class.cache_info().currsize <= KINDS
    same = {"$codeact": "record", "of": ["A4999", [["x", 1]]]}
    assert unpack(same) == unpack(same)

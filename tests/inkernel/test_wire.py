"""Values on the wire."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from datetime import UTC
from enum import IntEnum
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.inkernel.wire import pack, size_of, to_json, unpack

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.uuids()
    | st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 9))
)
hashable = scalars | st.tuples(scalars, scalars)
values = st.recursive(
    scalars | st.sets(hashable, max_size=3) | st.frozensets(hashable, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(hashable, inner, max_size=4)
    ),
    max_leaves=20,
)


def there(value):
    """A value after its way over the wire: what JSON cannot carry would be replaced there."""
    return unpack(json.loads(to_json(pack(value))))


@given(values)
def test_what_is_packed_comes_back_the_same(value):
    assert there(value) == value


@given(values)
def test_the_size_is_about_that_of_its_json(value):
    packed = pack(value)
    written = len(to_json(packed))
    assert written / 6 - 8 <= size_of(packed) <= 3 * written + 16


@pytest.mark.parametrize(
    "value",
    ["a\ud800b", 7 << 20_000, -(7 << 20_000), math.inf, -math.inf, complex(0, math.inf), Path("a/b")],
    ids=[
        "half a pair",
        "a long number",
        "a long negative number",
        "infinity",
        "minus infinity",
        "complex",
        "path",
    ],
)
def test_what_json_cannot_carry_by_itself_travels_too(value):
    back = there([value])
    assert type(back[0]) is type(value)
    assert back == [value]


def test_nan_stays_nan():
    assert math.isnan(there(math.nan))


@pytest.mark.parametrize(
    "value", [(1, 2), {1, 2}, frozenset({1}), b"\x00", 1j, True, 1.0, [(1,)], {"a": (1,)}, {1: {2}}]
)
def test_types_come_back_too(value):
    back = there(value)
    assert type(back) is type(value)
    assert repr(back) == repr(value)


def test_our_own_mark_in_a_dict_is_data():
    value = {"$codeact": "bytes", "of": "AAAA"}
    assert unpack(pack(value)) == value


def test_kinds_of_plain_values_travel_as_plain_values():
    class Level(IntEnum):
        HIGH = 3

    assert unpack(pack(Level.HIGH)) == 3
    assert unpack(pack(OrderedDict(a=1))) == {"a": 1}
    assert math.isinf(unpack(json.loads(json.dumps(pack(math.inf)))))


def test_a_numpy_scalar_travels_as_its_number():
    assert unpack(pack(numpy.float64(1.5))) == 1.5
    assert type(unpack(pack(numpy.int32(7)))) is int


def test_what_cannot_travel_is_named_with_its_place():
    with pytest.raises(TypeError, match=r"argument 'x'\['rows'\]\[1\] is a builtins.object"):
        pack({"rows": [1, object()]}, "argument 'x'")


def test_nonsense_from_the_wire_is_refused():
    with pytest.raises(ValueError, match="no kind of value"):
        unpack({"$codeact": "eval", "of": "1"})

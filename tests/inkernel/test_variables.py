"""What the names hold is told, and nobody's code runs for it."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from codeact_kernel.inkernel.variables import variables


def told(**values):
    shell = SimpleNamespace(user_ns=values, user_ns_hidden={})
    return [(v["name"], v["type"], v["size"], v["value"]) for v in variables(shell)]


@pytest.mark.parametrize(
    ("value", "about"),
    [
        (42, ("int", "", "42")),
        (10**200, ("int", "", f"1{'0' * 27}...{'0' * 29}")),
        (True, ("bool", "", "True")),
        (None, ("NoneType", "", "None")),
        (1.5, ("float", "", "1.5")),
        ("a\nb", ("str", "3", "'a\\nb'")),
        ([1, 2.5, None], ("list", "3", "[1, 2.5, None]")),
        ({"a": [1]}, ("dict", "1", "{'a': [1]}")),
        (range(10), ("range", "10", "range(0, 10)")),
        (math, ("module", "", "math")),
        (len, ("builtin_function_or_method", "", "")),
        (np.zeros((3, 4)), ("ndarray", "3x4", "")),
        (pd.DataFrame({"a": [1, 2]}), ("DataFrame", "2x1", "")),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else type(value).__name__,
)
def test_a_value_is_told_by_type_size_and_text(value, about):
    assert told(name=value) == [("name", *about)]


def test_long_values_are_short():
    for value in ("x" * 10**6, ["y" * 10**6] * 1000, dict.fromkeys(range(1000), "z" * 1000), [[[[[1]]]]]):
        ((_, _, _, text),) = told(name=value)
        assert len(text) <= 120


def test_no_code_of_a_user_s_class_runs():
    class Trap:
        def __repr__(self):
            raise AssertionError("it was called")

        __len__ = __str__ = __getattr__ = __hash__ = __eq__ = __iter__ = __repr__

    class Rows(list):
        __repr__ = __len__ = __iter__ = Trap.__repr__

    assert told(a=Trap(), b=[Trap()], c=Rows()) == [
        ("a", "Trap", "", ""),
        ("b", "list", "1", "[<Trap>]"),
        ("c", "Rows", "", ""),
    ]

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


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        (np.zeros(1000), 8000, 8000),
        (pd.DataFrame({"a": range(1000)}), 8000, 9000),
        (pd.Series(range(1000)), 8000, 9000),
        ("x" * 10_000, 10_000, 11_000),
        ([np.zeros(1000)] * 500, 4_000_000, 4_100_000),
        (dict.fromkeys(range(5000), "x" * 1000), 5_000_000, 6_000_000),
        (42, 24, 40),
        ([], 40, 100),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bytes_are_known_of_what_needs_no_foreign_code(value, least, most):
    (about,) = variables(SimpleNamespace(user_ns={"name": value}, user_ns_hidden={}))
    assert least <= int(about["bytes"]) <= most


def test_a_class_that_shares_a_name_with_one_of_python_s_own_runs_no_code_either():
    called = []

    class deque:  # noqa: N801
        def __iter__(self):
            called.append(self)
            return iter(())

        __len__ = __sizeof__ = nbytes = memory_usage = shape = property(__iter__)

    (about,) = variables(SimpleNamespace(user_ns={"name": [deque()]}, user_ns_hidden={}))
    assert about["value"] == "[<deque>]"
    assert variables(SimpleNamespace(user_ns={"name": deque()}, user_ns_hidden={}))[0]["bytes"] == ""
    assert not called

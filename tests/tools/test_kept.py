"""What the record keeps of a call."""

import math

import pytest

from codeact_kernel.tools import kept_arguments
from codeact_kernel.tools.kept import kept_result


class Odd:
    def __eq__(self, other):
        raise RuntimeError


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "é\n", [], [1, [2, {"a": None}]], {"a": [1.5, "x"]}])
def test_plain_results_are_kept_and_read_as_they_were(value):
    import json

    assert json.loads(kept_result(value)) == value


@pytest.mark.parametrize(
    "value", [(1, 2), {1: 2}, {1}, b"x", math.nan, object(), Odd(), [Odd()], "x" * 20_000, ["x" * 9_000] * 2]
)
def test_what_would_read_as_something_else_or_is_long_is_not_kept(value):
    assert kept_result(value) == ""


def test_what_holds_itself_is_not_kept():
    loop = []
    loop.append(loop)
    assert kept_result(loop) == ""


def test_arguments_read_as_code_and_of_long_ones_there_is_a_digest():
    assert kept_arguments(("a", 1), {"b": [None]}) == ('"a", 1, b=[null]', "")
    text, digest = kept_arguments(("x" * 20_000,), {})
    assert (len(text), len(digest)) == (16_384, 64)

"""Names and texts of strangers."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.tools.mcp.names import Secrets, clean, identifier, one_line


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("search_issues", "search_issues"),
        ("class", "class_"),
        ("a-b", "a_b"),
        ("a.b/c", "a_b_c"),
        ("2fast", "x_2fast"),
        ("", "x"),
        ("__class__", "x__class__"),
        ("über größe", "über_größe"),
        ("ﬁle", "file"),
        ("👍", "x_"),
    ],
)
def test_a_name_becomes_an_identifier(name, made):
    assert identifier(name) == made


@given(st.lists(st.text(max_size=8), max_size=20))
def test_names_become_identifiers_that_differ_and_hide_nothing(names):
    made = []
    for name in names:
        made.append(identifier(name, made))
        assert made[-1].isidentifier()
        assert not keyword.iskeyword(made[-1])
        assert not made[-1].startswith("_")
    assert len(set(made)) == len(made)


def test_what_no_reader_sees_is_dropped():
    text = "a\x1b[31mb\u202ec\u200bd\x00e\U000e0041f\ud800g\r\nh\ti"
    assert clean(text, 100) == "a[31mbcdefg\nh\ti"
    assert one_line(" a\n\n b ", 100) == "a b"


def test_a_long_text_is_cut():
    assert clean("x" * 10_000_000, 10) == "xxxxxxxxx…"
    assert clean(None, 10) == ""


def test_secrets_are_hidden_also_in_parts_and_short_ones_are_no_secrets():
    secrets = Secrets(["Bearer abcdef", "1", ""])
    assert secrets.hide("Bearer abcdef, abcdef, 1") == "***, ***, 1"
    assert Secrets().hide("a") == "a"

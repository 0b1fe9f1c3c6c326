"""How the arguments of a call are bound: the quick way gives what the signature gives, or leaves it to it."""

from __future__ import annotations

import itertools

import pytest

from codeact_kernel.inkernel.tools import _by_name, _quick_bind, make_tool, parse_signature

SIGNATURES = [
    "()",
    "(a)",
    "(a, b=2)",
    "(a, *, b)",
    "(a=1, *, b=2, c=3)",
    "(a, /, b)",
    "(a, *rest)",
    "(a, b=2, **more)",
    "(a, *rest, b=2, **more)",
]
GIVEN = [
    (args, dict(kwargs))
    for count in range(4)
    for args in [tuple(range(count))]
    for size in range(4)
    for kwargs in itertools.permutations([("a", 10), ("b", 11), ("c", 12), ("x", 13)], size)
]


class Called:
    """A bridge that remembers what was called."""

    def call(self, name, args, kwargs):
        return args, kwargs


@pytest.mark.parametrize("text", SIGNATURES)
def test_arguments_are_bound_quickly_as_the_signature_binds_them(text):
    signature = parse_signature(text)
    quickly, quick = _quick_bind(signature), 0
    for args, kwargs in GIVEN:
        given = quickly(args, kwargs)
        try:
            wanted = _by_name(signature.bind(*args, **kwargs))
        except TypeError:
            assert given is None
            continue
        if given is not None:
            quick += 1
            assert ((), given) == wanted
            assert list(given) == list(wanted[1])
    assert bool(quick) == ("/" not in text and "*rest" not in text and "**" not in text)


def test_what_does_not_fit_is_refused_in_the_words_of_the_signature():
    add = make_tool(Called(), {"name": "add", "signature": "(a, b=2)", "doc": ""})
    assert add(1, b=3) == ((), {"a": 1, "b": 3})
    for args, kwargs, words in (
        ((), {}, "missing a required argument"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"a": 1}, "multiple values for argument 'a'"),
        ((1,), {"c": 1}, "unexpected keyword argument 'c'"),
    ):
        with pytest.raises(TypeError, match=words):
            add(*args, **kwargs)

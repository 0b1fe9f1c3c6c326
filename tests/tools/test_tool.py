"""What of a function is shown to a block."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import pytest

from codeact_kernel.errors import ConfigError
from codeact_kernel.inkernel.tools import make_tool, parse_signature
from codeact_kernel.tools import as_tool, as_tools

marker = object()


def search(
    query: str, limit: int = 5, *, tags: Sequence[str] = (), where: object = marker
) -> list[dict[str, str]]:
    """Search the pages.

    More about it.
    """


async def fetch(url: "str") -> bytes:  # noqa: UP037
    """Fetch a page."""


def test_signature_docstring_and_kind_are_the_function_s():
    tool = as_tool(search)
    assert tool.signature == (
        "(query: str, limit: int = 5, *, tags: Sequence[str] = (), where: object = ...) -> list[dict[str, str]]"
    )
    assert tool.summary == "Search the pages."
    assert not tool.is_async
    assert as_tool(fetch).is_async


def test_the_signature_as_text_reads_back_as_the_same_signature():
    signature = parse_signature(as_tool(search).signature)
    assert list(signature.parameters) == ["query", "limit", "tags", "where"]
    assert signature.parameters["limit"].default == 5
    assert signature.parameters["tags"].kind is inspect.Parameter.KEYWORD_ONLY
    assert signature.return_annotation == "list[dict[str, str]]"


def test_a_default_that_cannot_be_shown_is_left_to_the_host():
    sent = []

    class Bridge:
        def call(self, name, args, kwargs):
            sent.append((args, kwargs))

    make_tool(Bridge(), as_tool(search).describe())("x")
    assert sent == [((), {"query": "x"})]


@pytest.mark.parametrize("text", ["(*args, **kwargs)", "(a, /, b, *c, d=1, **e)", "()", "(a, b=None, *, c)"])
def test_every_kind_of_parameter_is_passed_on_whole(text):
    seen = []

    class Bridge:
        def call(self, name, args, kwargs):
            seen.append(inspect.signature(eval(f"lambda {text[1:-1]}: None")).bind(*args, **kwargs).arguments)

    signature = parse_signature(text)
    calls = {
        "(*args, **kwargs)": ((1, 2), {"x": 3}),
        "(a, /, b, *c, d=1, **e)": ((1, 2, 3), {"d": 4, "z": 5}),
        "()": ((), {}),
        "(a, b=None, *, c)": ((1,), {"c": 2}),
    }
    args, kwargs = calls[text]
    make_tool(Bridge(), {"name": "f", "signature": text, "doc": ""})(*args, **kwargs)
    assert seen[0] == signature.bind(*args, **kwargs).arguments


def test_names_that_are_taken_or_double_are_refused():
    def self():
        pass

    with pytest.raises(ConfigError, match="rename"):
        as_tool(self)
    with pytest.raises(ConfigError, match="two tools are called search"):
        as_tools([search, search])
    with pytest.raises(ConfigError, match="function with a name"):
        as_tool(lambda: None)

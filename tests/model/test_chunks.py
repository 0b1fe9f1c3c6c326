from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.messages import (
    CallPiece,
    ImagePart,
    Message,
    ModelRequest,
    TextPiece,
    ThoughtPiece,
    Usage,
)
from codeact_kernel.model.chunks import ChunkReader

REQUEST = ModelRequest((Message("user", "x" * 40),))


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def read(*chunks: Any) -> list[Any]:
    reader = ChunkReader()
    return [piece for chunk in chunks for piece in reader.read(chunk)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "delta", "content", "index", "finish_reason", "usage", "tool_calls", "function", "id",
             "name", "arguments", "text", "thinking", "prompt_tokens", "completion_tokens", "total_tokens",
             "prompt_tokens_details", "cached_tokens", "reasoning", "reasoning_content"]
        ),
        inner,
        max_size=6,
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(json_values, max_size=4))
def test_no_chunk_of_any_shape_raises(chunks):
    reader = ChunkReader()
    for chunk in chunks:
        list(reader.read(chunk))
        list(reader.read({"choices": [{"delta": chunk}], "usage": chunk}))
        list(reader.read({"choices": [{"delta": {"content": chunk, "tool_calls": [chunk]}}]}))
    usage = reader.usage(REQUEST, None)
    assert usage.calls == 1
    assert usage.input_tokens >= usage.cached_tokens >= 0


def test_both_names_of_reasoning_are_thoughts_and_are_not_doubled():
    assert read(delta(reasoning_content="a"), delta(reasoning="b")) == [ThoughtPiece("a"), ThoughtPiece("b")]
    assert read(delta(reasoning_content="a", reasoning="a")) == [ThoughtPiece("a")]


def test_content_in_parts_is_sorted_into_text_and_thought():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
    ]
    assert read(delta(content=parts)) == [ThoughtPiece("hm"), TextPiece("yes")]


def test_calls_without_an_index_are_told_apart_by_their_ids():
    first = {"id": "a", "function": {"name": "f", "arguments": "{"}}
    more = {"function": {"arguments": "}"}}
    second = {"id": "b", "function": {"name": "g", "arguments": {"x": 1}}}
    assert read(delta(tool_calls=[first]), delta(tool_calls=[more]), delta(tool_calls=[second])) == [
        CallPiece(0, "a", "f", "{"),
        CallPiece(0, None, None, "}"),
        CallPiece(1, "b", "g", '{"x": 1}'),
    ]


def test_only_the_first_choice_is_the_reply():
    assert read({"choices": [{"index": 1, "delta": {"content": "other"}}]}) == []


@pytest.mark.parametrize(
    ("said", "meant"),
    [("stop", "stop"), ("length", "length"), ("MAX_TOKENS", "length"), ("end_turn", "stop"),
     ("content_filter", "content_filter"), ("error", None), ("abort", None)],
)  # fmt: skip
def test_finish_reasons_of_others_are_told_in_one_language(said, meant):
    reader = ChunkReader()
    list(reader.read({"choices": [{"index": 0, "delta": {}, "finish_reason": said}]}))
    assert reader.finished
    assert reader.finish == meant


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"total_tokens": 15}, (10, 0, 5)),
        ({"prompt_tokens_details": {"cached_tokens": 8}}, (10, 8, 5)),
        ({"prompt_cache_hit_tokens": 4}, (10, 4, 5)),
        ({"prompt_tokens_details": None, "cached_tokens": 3}, (10, 3, 5)),
        ({"total_tokens": 95}, (10, 0, 85)),
        ({"cached_tokens": 99}, (10, 10, 5)),
    ],
)
def test_usage_is_read_from_every_dialect(usage, expected):
    reader = ChunkReader()
    list(reader.read({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, **usage}}))
    got = reader.usage(REQUEST, None)
    assert (got.input_tokens, got.cached_tokens, got.output_tokens) == expected
    assert not got.estimated


def test_the_last_usage_counts_where_each_chunk_brings_one():
    reader = ChunkReader()
    for written in (1, 2, 3):
        list(reader.read({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": written}}))
    assert reader.usage(REQUEST, None).output_tokens == 3


@pytest.mark.parametrize(
    "figures",
    [
        {"prompt_tokens": 7},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": 7, "completion_tokens": float("inf")},
    ],
)
def test_a_usage_whose_figures_cannot_be_is_an_estimate(figures):
    reader = ChunkReader()
    list(reader.read({"choices": [], "usage": figures}))
    assert reader.usage(REQUEST, None) == Usage(10, 0, 0, 1, None, estimated=True)


def test_images_count_in_an_estimate_by_their_pixels():
    image = ImagePart("", "image/png", b"x" * 10_000, 1500, 1000)
    request = replace(REQUEST, messages=(Message("user", "x" * 40, images=(image,)),))
    assert ChunkReader().usage(request, None) == Usage(2010, 0, 0, 1, None, estimated=True)

from __future__ import annotations

import importlib
import json
from typing import Any

import httpx
import openai
import pytest

from codeact_kernel.errors import ContextOverflow, ModelRefused, ModelUnreachable, RateLimited
from codeact_kernel.model.address import Key
from codeact_kernel.model.failures import Failure, judge, retry_after
from codeact_kernel.model.settings import ModelSettings

SETTINGS = ModelSettings("m", "the-model", base_url="https://u:p@h.example/v1", key=Key("sk-secret"))
OPTIONAL = ("stream_options", "stop", "max_tokens", "temperature")


def answered(status: int, body: Any, headers: dict[str, str] | None = None) -> Failure:
    """What an answer comes to, by the library's own way from a response to an exception."""
    content = body if isinstance(body, str) else json.dumps(body)
    client = openai.AsyncOpenAI(api_key="k", base_url="https://h.example/v1")
    # The library's HTTP client is httpx in its version 2, and httpx2 since.
    http = importlib.import_module(openai.DefaultAsyncHttpxClient.__mro__[1].__module__)
    request = http.Request("POST", "https://h.example/v1/chat/completions")
    response = http.Response(status, content=content, headers=headers or {}, request=request)
    return judge(client._make_status_error_from_response(response), SETTINGS, OPTIONAL)


@pytest.mark.parametrize(
    ("message", "window"),
    [
        ("This model's maximum context length is 128,000 tokens. However, …", 128000),
        ("Your input exceeds the context window of this model.", None),
        ("request (20031 tokens) exceeds the available context size (8192 tokens)", 8192),
        ("the request exceeds the available context size, try increasing it", None),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200000),
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000", None),
        ("The input (400013 tokens) is longer than the model's context length (262144 tokens).", 262144),
        ("Input length (265330) exceeds model's maximum context length (262144).", 262144),
        ("Input token count (119626) exceeds the maximum number of tokens allowed (104857).", 104857),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131072),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32768),
        ("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 131040),
        ("Please reduce the length of the messages or completion.", None),
        ("Context size has been exceeded.", None),
    ],
)
@pytest.mark.parametrize("status", [400, 413, 500])
def test_an_overflow_is_recognised_in_every_dialect(status, message, window):
    failure = answered(status, {"error": {"message": message}})
    assert isinstance(failure.error, ContextOverflow)
    assert not failure.again
    assert failure.window == window


@pytest.mark.parametrize(
    "error",
    [
        {"code": "context_length_exceeded", "message": "too much"},
        {"type": "exceed_context_size_error", "message": "too much", "n_ctx": 8192},
    ],
)
def test_an_overflow_is_recognised_by_its_code(error):
    failure = answered(400, {"error": error})
    assert isinstance(failure.error, ContextOverflow)
    assert failure.window == error.get("n_ctx")


def test_too_large_a_body_is_an_overflow_whatever_its_code():
    body = {"error": {"message": "Request too large", "code": "rate_limit_exceeded"}}
    assert isinstance(answered(413, body).error, ContextOverflow)


@pytest.mark.parametrize(
    "body", [{"message": "the request is wrong"}, {"detail": "a context is missing"}, ""]
)
def test_other_bad_requests_are_no_overflow(body):
    failure = answered(400, body)
    assert type(failure.error) is ModelRefused
    assert not failure.again


def test_a_throttle_that_speaks_of_tokens_is_no_overflow():
    failure = answered(429, {"error": {"message": "Too many tokens: reduce the length of the messages"}})
    assert isinstance(failure.error, RateLimited)
    assert failure.again


@pytest.mark.parametrize(
    ("status", "body", "field"),
    [
        (400, {"error": {"message": "Unrecognized argument: stream_options"}}, "stream_options"),
        (400, {"error": {"message": "Unsupported parameter", "param": "stop"}}, "stop"),
        (400, {"error": {"message": "Unknown", "param": "stream_options.include_usage"}}, "stream_options"),
        (400, {"error": {"message": "max_tokens not supported, use max_completion_tokens"}}, "max_tokens"),
        (400, {"error": {"message": "does not support 0", "param": "temperature"}}, "temperature"),
        (422, {"detail": [{"loc": ["body", "stop"], "msg": "Extra inputs are not permitted"}]}, "stop"),
        (400, {"error": {"message": "Invalid value", "param": "messages[0].content"}}, None),
        (400, {"error": {"message": "the stream stopped"}}, None),
        (500, {"error": {"message": "stop is not supported"}}, None),
    ],
)  # fmt: skip
def test_a_refused_field_is_found_however_it_is_told(status, body, field):
    assert answered(status, body).rejected == field


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"error": {"message": "The model `x` does not exist", "code": "model_not_found"}}),
        (404, {"error": "model 'x' not found"}),
        (400, {"error": {"message": "x is not a valid model ID", "code": "model_not_found"}}),
        (400, {"error": {"message": "Invalid model name passed in model=x"}}),
    ],
)
def test_an_unknown_model_is_recognised(status, body):
    failure = answered(status, body)
    assert failure.unknown_model
    assert isinstance(failure.error, ModelRefused)


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500])
def test_no_message_holds_the_key_or_the_password(status):
    failure = answered(status, {"error": {"message": "you sent sk-secret, that is wrong"}})
    assert "sk-secret" not in failure.error.message
    assert "u:p@" not in failure.error.message
    assert "\n" not in failure.error.message


def test_a_page_of_html_is_not_shown_to_a_person():
    failure = answered(502, "<!doctype html>\n<HTML><body>" + "x" * 5000)
    assert "<" not in failure.error.message
    assert failure.again


def test_a_long_answer_is_shortened():
    assert len(answered(400, {"error": {"message": "word " * 2000}}).error.message) < 500


@pytest.mark.parametrize("body", [None, 5, [], {"error": 7}, {"error": {"message": {"a": 1}}}, "null", "{"])
def test_a_body_of_any_shape_gives_a_sentence(body):
    failure = answered(400, body)
    assert failure.error.message.startswith("https://h.example/v1 refused the request (400)")


@pytest.mark.parametrize(
    ("body", "again", "kind"),
    [
        ({"message": "Provider disconnected", "code": 502}, True, ModelUnreachable),
        ({"message": "slow down", "code": 429}, True, RateLimited),
        ({"message": "overloaded", "type": "overloaded_error"}, True, ModelUnreachable),
        ({"message": "maximum context length is 4096 tokens", "code": 400}, False, ContextOverflow),
        ({"message": "bad", "code": 400}, False, ModelRefused),
    ],
)
def test_an_error_inside_a_stream_is_judged_like_an_answer(body, again, kind):
    error = openai.APIError(body["message"], request=None, body=body)  # type: ignore[arg-type]
    failure = judge(error, SETTINGS)
    assert (failure.again, type(failure.error)) == (again, kind)


def test_what_an_older_http_client_lets_through_counts_as_unreachable():
    failure = judge(httpx.ReadError("connection reset"), SETTINGS)
    assert isinstance(failure.error, ModelUnreachable)
    assert failure.again


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "1382400"}, 1382400.0),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:30 GMT", "date": "Mon, 30 Nov 2026 12:00:00 GMT"}, 30.0),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT", "date": "Mon, 30 Nov 2026 12:00:00 GMT"}, 0.0),
        (
            {"retry-after": "Wed, 16 Dec 2026 12:00:00 GMT", "date": "Mon, 30 Nov 2026 12:00:00 GMT"},
            16 * 86400.0,
        ),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Mon, 99 Nov 99999 12:00:00 GMT"}, None),
    ],
)
def test_retry_after_is_read_in_every_form_and_nonsense_is_none(headers, expected):
    assert retry_after(headers) == expected


def test_a_date_is_counted_from_the_clock_where_the_answer_has_none():
    assert retry_after({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, now=100.0) == 20.0

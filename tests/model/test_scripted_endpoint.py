"""The scripted endpoint, as another program's client sees it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest

from codeact_kernel.messages import ToolCall, Usage
from codeact_kernel.testing.endpoint import EndpointReply, ScriptedEndpoint, failing


def post(endpoint: ScriptedEndpoint, text: str = "hi", **body: Any) -> Any:
    request = urllib.request.Request(
        endpoint.base_url + "/chat/completions",
        json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], **body}).encode(),
        {"Authorization": "Bearer k"},
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


def test_it_serves_a_blocking_client_in_another_process():
    with ScriptedEndpoint(["hello from the script"]) as endpoint:
        program = f"""
import json, urllib.request
body = json.dumps({{"messages": [{{"role": "user", "content": "hi"}}]}}).encode()
with urllib.request.urlopen(urllib.request.Request("{endpoint.base_url}/chat/completions", body)) as answer:
    print(json.load(answer)["choices"][0]["message"]["content"])
"""
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True
        )
    assert done.stdout == "hello from the script\n"


def test_replies_come_in_order_and_all_requests_are_kept():
    with ScriptedEndpoint(["one", "two"]) as endpoint:
        assert [post(endpoint, text)["choices"][0]["message"]["content"] for text in "ab"] == ["one", "two"]
        assert [request.messages[0]["content"] for request in endpoint.requests] == ["a", "b"]
        assert endpoint.requests[0].headers["authorization"] == "Bearer k"
        assert endpoint.left == 0
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(endpoint)
        assert "only 2 replies" in caught.value.read().decode()


def test_a_function_answers_from_the_request():
    with ScriptedEndpoint(lambda request: request.messages[-1]["content"].upper()) as endpoint:
        assert post(endpoint, "shout")["choices"][0]["message"]["content"] == "SHOUT"


def test_stop_sequences_cut_as_a_real_endpoint_does():
    text = "<run_code>\n1\n</run_code>\n<run_code_result>\n2"
    with ScriptedEndpoint([text, text]) as endpoint:
        cut = post(endpoint, stop=["\n<run_code_result"])["choices"][0]
        assert cut["message"]["content"] == "<run_code>\n1\n</run_code>"
        assert cut["finish_reason"] == "stop"
    with ScriptedEndpoint([text], stops=False) as endpoint:
        assert post(endpoint, stop="\n<run")["choices"][0]["message"]["content"] == text


def test_what_a_prompt_shares_with_an_earlier_one_counts_as_cached():
    def usage(messages: list[str]) -> dict[str, Any]:
        body = [{"role": "user", "content": text} for text in messages]
        return post(endpoint, messages=body)["usage"]

    with ScriptedEndpoint(["x"] * 3) as endpoint:
        first = usage(["a" * 4000])
        grown = usage(["a" * 4000, "b" * 400])
        changed = usage(["A" * 4000, "b" * 400])
    assert first["prompt_tokens_details"]["cached_tokens"] < 10
    assert 1000 <= grown["prompt_tokens_details"]["cached_tokens"] < grown["prompt_tokens"]
    assert changed["prompt_tokens_details"]["cached_tokens"] < 10


def test_a_usage_can_be_scripted():
    with ScriptedEndpoint([EndpointReply("x", usage=Usage(11, 3, 5))]) as endpoint:
        usage = post(endpoint)["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (11, 5, 16)


def test_tool_calls_end_a_reply_as_such():
    with ScriptedEndpoint([EndpointReply(calls=(ToolCall("c", "f", "{}"),))]) as endpoint:
        choice = post(endpoint)["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({"key": "other"}, 401, "invalid_api_key"),
        ({"models": ["a"]}, 404, "model_not_found"),
        ({"rejects": ["model"]}, 400, "Unrecognized request argument supplied: model"),
        ({"window": 1}, 400, "context_length_exceeded"),
        ({"script": [failing(429, "slow", retry_after=7)]}, 429, "slow"),
    ],
)
def test_it_refuses_as_it_is_told(options, status, words):
    with ScriptedEndpoint(**{"script": ["never"], **options}) as endpoint:
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(endpoint)
        assert caught.value.code == status
        assert words in caught.value.read().decode()
        assert caught.value.headers["Retry-After"] == ("7" if status == 429 else None)


def test_models_are_listed_and_other_paths_are_not_there():
    with ScriptedEndpoint(models=["a", "b"]) as endpoint:
        with urllib.request.urlopen(endpoint.base_url + "/models") as answer:
            assert [model["id"] for model in json.load(answer)["data"]] == ["a", "b"]
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(endpoint.base_url + "/embeddings", b"{}")
        assert caught.value.code == 404
        caught.value.close()


def test_a_port_that_is_taken_is_an_error_not_a_hang():
    with (
        ScriptedEndpoint() as first,
        pytest.raises(OSError, match="in use"),
        ScriptedEndpoint(port=int(first.base_url.split(":")[2].removesuffix("/v1"))),
    ):
        pass


def test_closing_does_not_wait_for_a_reply_that_hangs():
    with ScriptedEndpoint([EndpointReply("x", breaks="hang")]) as endpoint:
        request = urllib.request.Request(
            endpoint.base_url + "/chat/completions", b'{"stream": true, "messages": []}'
        )
        answer = urllib.request.urlopen(request, timeout=10)
        answer.readline()
    answer.close()

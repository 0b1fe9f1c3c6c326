"""The endpoint model against a scripted endpoint, over real loopback HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import traceback
from collections.abc import AsyncIterator
from typing import Any

import pytest

from codeact_kernel.errors import (
    ContextOverflow,
    ModelError,
    ModelRefused,
    ModelUnreachable,
    RateLimited,
)
from codeact_kernel.messages import (
    CallPiece,
    EndPiece,
    ImagePart,
    Message,
    ModelRequest,
    Piece,
    TextPiece,
    ThoughtPiece,
    ToolCall,
    ToolSchema,
    Usage,
)
from codeact_kernel.model.address import Key
from codeact_kernel.model.endpoint import EndpointModel
from codeact_kernel.model.retry import Retrying, RetryPolicy
from codeact_kernel.model.settings import ModelSettings
from codeact_kernel.prices import Prices
from codeact_kernel.testing.endpoint import EndpointReply, ScriptedEndpoint, failing

SECRET = "sk-very-secret-1234567890"


class Waits:
    """A sleep that takes no time, and what was reported."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.reasons: list[str] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def heard(self, reason: str, wait: float) -> None:
        self.reasons.append(reason)

    def retrying(self, **policy: Any) -> Retrying:
        return Retrying(RetryPolicy(**policy), self.heard, self.sleep, jitter=lambda: 1.0)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@contextlib.asynccontextmanager
async def opened(url: str, waits: Waits, policy: Any = None, **settings: Any) -> AsyncIterator[EndpointModel]:
    chosen = {"key": Key(SECRET), "key_from": "LLM_API_KEY", **settings}
    model = EndpointModel(
        ModelSettings("m", "scripted", base_url=url, **chosen), waits.retrying(**policy or {})
    )
    try:
        yield model
    finally:
        await model.aclose()


@contextlib.asynccontextmanager
async def answering(answer: bytes, *, hold: bool = False) -> AsyncIterator[str]:
    """A server that gives these bytes for any request, and then closes, or waits for the client to leave."""
    attended = asyncio.Event()

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            while hold and await reader.read(4096):
                pass
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        attended.set()

    async with await asyncio.start_server(attend, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await attended.wait()


def ask(text: str = "hello", **options: Any) -> ModelRequest:
    return ModelRequest((Message("system", "be brief"), Message("user", text)), **options)


async def collect(model: EndpointModel, request: ModelRequest | None = None) -> list[Piece]:
    return [piece async for piece in model.stream(request or ask())]


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


async def test_a_reply_streams_in_pieces_and_ends_with_its_reason_and_usage(waits):
    async with (
        ScriptedEndpoint([EndpointReply("one two three four", usage=Usage(100, 60, 7))]) as endpoint,
        opened(endpoint.base_url, waits, prices=Prices(1.0, 2.0, 0.5)) as model,
    ):
        pieces = await collect(model)
    assert text_of(pieces) == "one two three four"
    assert len(pieces) > 2
    cost = (40 * 1.0 + 60 * 0.5 + 7 * 2.0) / 1e6
    assert pieces[-1] == EndPiece("stop", Usage(100, 60, 7, calls=1, cost=pytest.approx(cost)))
    assert waits.slept == []


async def test_the_request_holds_what_was_asked(waits):
    call = ToolCall("c1", "run_code", '{"code": "1"}')
    request = ModelRequest(
        (
            Message("user", "go"),
            Message("assistant", "", (call,)),
            Message("tool", "1", tool_call_id="c1"),
        ),
        stop=("\n<a", "\n<b", "\n<c", "\n<d", "\n<e"),
        tools=(ToolSchema("run_code", "runs", {"type": "object"}),),
        max_tokens=77,
        extra={"temperature": 0.5, "seed": 3},
    )
    async with (
        ScriptedEndpoint(["ok"]) as endpoint,
        opened(endpoint.base_url, waits, extra={"seed": 1, "top_k": 2}) as model,
    ):
        await collect(model, request)
        [recorded] = endpoint.requests
    body = recorded.body
    assert body["model"] == "scripted"
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["stop"] == ["\n<a", "\n<b", "\n<c", "\n<d"]
    assert body["max_tokens"] == 77
    assert (body["temperature"], body["seed"], body["top_k"]) == (0.5, 3, 2)
    assert body["tools"][0]["function"]["name"] == "run_code"
    assert body["messages"][1]["content"] is None
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"code": "1"}'
    assert body["messages"][2] == {"role": "tool", "content": "1", "tool_call_id": "c1"}
    assert recorded.headers["authorization"] == f"Bearer {SECRET}"


async def test_images_stand_before_the_text_each_behind_its_label(waits):
    images = (
        ImagePart("one:", "image/png", b"\x89PNG", 3, 2),
        ImagePart("two\udc80:", "image/jpeg", b"\xff\xd8", 1, 1),
    )
    async with ScriptedEndpoint(["ok"]) as endpoint, opened(endpoint.base_url, waits) as model:
        await collect(model, ModelRequest((Message("user", "What is it?", images=images),)))
        [recorded] = endpoint.requests
    assert recorded.messages == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "one:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
                {"type": "text", "text": "two?:"},
                {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9g="}},
                {"type": "text", "text": "What is it?"},
            ],
        }
    ]


async def test_thoughts_and_tool_calls_come_apart_from_the_text(waits):
    calls = (ToolCall("c1", "run_code", '{"code": "print(1)"}'), ToolCall("c2", "cancel", '{"id": "x"}'))
    async with (
        ScriptedEndpoint([EndpointReply("Now.", thought="Let me think.", calls=calls)]) as endpoint,
        opened(endpoint.base_url, waits) as model,
    ):
        pieces = await collect(model)
    assert "".join(p.text for p in pieces if isinstance(p, ThoughtPiece)) == "Let me think."
    assert text_of(pieces) == "Now."
    for index, call in enumerate(calls):
        parts = [p for p in pieces if isinstance(p, CallPiece) and p.index == index]
        assert (parts[0].id, parts[0].name) == (call.id, call.name)
        assert "".join(p.arguments for p in parts) == call.arguments
    assert isinstance(pieces[-1], EndPiece)
    assert pieces[-1].finish == "tool_calls"


async def test_without_usage_it_is_estimated_and_says_so(waits):
    async with (
        ScriptedEndpoint([EndpointReply("x" * 40, usage=None)]) as endpoint,
        opened(endpoint.base_url, waits) as model,
    ):
        end = (await collect(model, ask("y" * 392)))[-1]
    assert isinstance(end, EndPiece)
    assert end.usage == Usage(100, 0, 10, 1, None, estimated=True)


@pytest.mark.parametrize("breaks", ["reset", "close", "malformed", "error"])
async def test_a_stream_that_breaks_is_a_cut_reply_and_is_not_asked_again(waits, breaks):
    reply = EndpointReply("<run_code>\nprint(1)\n</run_code>", breaks=breaks, at=17, piece=5)
    async with ScriptedEndpoint([reply, "never"]) as endpoint, opened(endpoint.base_url, waits) as model:
        pieces = await collect(model)
        assert endpoint.left == 1
    assert "<run_code>\nprint(1)".startswith(text_of(pieces)) or breaks == "reset"
    assert isinstance(pieces[-1], EndPiece)
    assert pieces[-1].finish is None
    assert pieces[-1].usage.estimated
    assert pieces[-1].usage.calls == 1


async def test_a_stream_that_ends_without_a_reason_is_cut(waits):
    async with (
        ScriptedEndpoint([EndpointReply("half", finish=None)]) as endpoint,
        opened(endpoint.base_url, waits) as model,
    ):
        assert (await collect(model))[-1].finish is None  # type: ignore[union-attr]


@pytest.mark.parametrize("breaks", ["drop", "reset", "close", "malformed", "error"])
async def test_what_breaks_before_the_first_piece_is_tried_again(waits, breaks):
    async with (
        ScriptedEndpoint([EndpointReply("never", breaks=breaks), "fine"]) as endpoint,
        opened(endpoint.base_url, waits) as model,
    ):
        assert text_of(await collect(model)) == "fine"
    assert len(waits.slept) == len(waits.reasons) == 1


@pytest.mark.parametrize("status", [408, 500, 502, 503, 529])
async def test_a_server_that_is_down_for_a_moment_is_tried_again(waits, status):
    async with (
        ScriptedEndpoint([failing(status, "overloaded")] * 3 + ["fine"]) as endpoint,
        opened(endpoint.base_url, waits) as model,
    ):
        assert text_of(await collect(model)) == "fine"
    assert waits.slept == [1.0, 2.0, 4.0]
    assert str(status) in waits.reasons[0]
    assert "overloaded" in waits.reasons[0]


async def test_a_server_that_stays_down_is_tried_as_long_as_patience_lasts(waits):
    script = [failing(503, "down")] * 20
    async with ScriptedEndpoint(script) as endpoint, opened(endpoint.base_url, waits) as model:
        with pytest.raises(ModelUnreachable) as caught:
            await collect(model)
        assert len(endpoint.requests) == 11
    assert 300 <= sum(waits.slept) <= 360
    assert caught.value.status == 503


async def test_retry_after_is_waited_and_the_library_does_not_retry_beside_us(waits):
    async with (
        ScriptedEndpoint([failing(429, "slow down", retry_after=2), "fine"]) as endpoint,
        opened(endpoint.base_url, waits) as model,
    ):
        assert text_of(await collect(model)) == "fine"
        assert len(endpoint.requests) == 2
    assert waits.slept == [3.0]  # the two seconds, and at most one of jitter


async def test_a_wait_of_days_ends_at_once_and_says_how_long(waits):
    async with (
        ScriptedEndpoint([failing(429, "come back later", retry_after=16 * 86400)]) as endpoint,
        opened(endpoint.base_url, waits) as model,
    ):
        with pytest.raises(RateLimited) as caught:
            await collect(model)
    assert caught.value.retry_after == 16 * 86400
    assert "resumed" in caught.value.message
    assert waits.slept == []


async def test_a_used_up_quota_is_not_waited_for(waits):
    async with (
        ScriptedEndpoint([failing(429, "check your plan", code="insufficient_quota")]) as endpoint,
        opened(endpoint.base_url, waits) as model,
    ):
        with pytest.raises(ModelRefused, match="check your plan"):
            await collect(model)
    assert waits.slept == []


@pytest.mark.parametrize("field", ["stream_options", "stop", "seed"])
async def test_a_field_that_is_not_taken_is_left_out_from_then_on(waits, field):
    async with (
        ScriptedEndpoint(["one", "two"], rejects=[field]) as endpoint,
        opened(endpoint.base_url, waits) as model,
    ):
        request = ask(stop=("\n<x",), extra={"seed": 1})
        assert text_of(await collect(model, request)) == "one"
        assert text_of(await collect(model, request)) == "two"
        assert [field in recorded.body for recorded in endpoint.requests] == [True, False, False]
    assert field in waits.reasons[0]


async def test_the_reply_limit_is_asked_for_by_its_other_name_where_one_is_refused(waits):
    async with (
        ScriptedEndpoint(["ok"], rejects=["max_tokens"]) as endpoint,
        opened(endpoint.base_url, waits, max_tokens=9) as model,
    ):
        assert text_of(await collect(model)) == "ok"
        assert endpoint.requests[-1].body["max_completion_tokens"] == 9


async def test_a_field_of_the_users_settings_is_never_dropped_silently(waits):
    async with (
        ScriptedEndpoint(["never"], rejects=["reasoning_effort"]) as endpoint,
        opened(endpoint.base_url, waits, extra={"reasoning_effort": "ultra"}) as model,
    ):
        with pytest.raises(ModelRefused, match="reasoning_effort"):
            await collect(model)


async def test_a_bad_key_names_the_variable_and_never_the_key(waits):
    echo = EndpointReply(status=401, error={"message": f"Incorrect API key provided: {SECRET}."})
    async with ScriptedEndpoint([echo]) as endpoint, opened(endpoint.base_url, waits) as model:
        with pytest.raises(ModelRefused, match="LLM_API_KEY") as caught:
            await collect(model)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in str(caught.value.__dict__)
    assert waits.slept == []


async def test_an_endpoint_that_wants_a_key_says_which_variable_to_set(waits):
    async with (
        ScriptedEndpoint(["never"], key="k") as endpoint,
        opened(endpoint.base_url, waits, key=None, key_from="LLM_API_KEY or OPENAI_API_KEY") as model,
    ):
        with pytest.raises(ModelRefused, match="set LLM_API_KEY or OPENAI_API_KEY"):
            await collect(model)


async def test_an_unknown_model_is_told_with_the_known_ones(waits):
    names = ["scripted-mini", "other", *(f"m{i}" for i in range(300))]
    async with (
        ScriptedEndpoint(["never"], models=names) as endpoint,
        opened(endpoint.base_url, waits) as model,
    ):
        with pytest.raises(ModelRefused, match=r"no model 'scripted'; it has .*scripted-mini") as caught:
            await collect(model)
    assert len(caught.value.message) < 300


async def test_a_path_with_nothing_behind_it_hints_at_the_base_url(waits):
    nothing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with answering(nothing) as url, opened(url, waits) as model:
        with pytest.raises(ModelRefused, match="end in /v1") as caught:
            await collect(model)
    assert caught.value.status == 404


async def test_a_prompt_past_the_window_is_an_overflow_and_tells_the_window(waits):
    async with ScriptedEndpoint(["never"], window=50) as endpoint, opened(endpoint.base_url, waits) as model:
        assert model.window is None
        with pytest.raises(ContextOverflow):
            await collect(model, ask("x" * 900))
    assert waits.slept == []


async def test_nobody_listening_is_told_soon_and_in_words(waits):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with opened(f"http://user:pass@127.0.0.1:{port}/v1", waits) as model:
        with pytest.raises(ModelUnreachable, match=r"cannot reach http://127\.0\.0\.1") as caught:
            await collect(model)
    assert "refused" in caught.value.message.lower()
    assert "pass" not in caught.value.message
    assert len(waits.slept) == 2


async def test_a_name_that_does_not_resolve_is_unreachable(waits):
    async with opened("http://no-such-host.invalid/v1", waits) as model:
        with pytest.raises(ModelUnreachable, match=r"no-such-host\.invalid"):
            await collect(model)


async def test_a_silent_endpoint_is_given_up(waits):
    async with (
        ScriptedEndpoint(lambda request: EndpointReply("never", wait=60)) as endpoint,
        opened(endpoint.base_url, waits, timeout=0.05) as model,
    ):
        with pytest.raises(ModelUnreachable, match="did not answer within"):
            await collect(model)


async def test_signs_of_life_of_a_connection_are_no_answer(waits):
    async with (
        ScriptedEndpoint(lambda request: EndpointReply(breaks="ping")) as endpoint,
        opened(endpoint.base_url, waits, timeout=0.1) as model,
    ):
        with pytest.raises(ModelUnreachable, match="did not answer within"):
            await collect(model)


@pytest.mark.parametrize("how", ["hang", "ping"])
async def test_an_endpoint_that_falls_silent_in_a_reply_makes_it_a_cut_one(waits, how):
    async with (
        ScriptedEndpoint([EndpointReply("half a reply", breaks=how, at=4)]) as endpoint,
        opened(endpoint.base_url, waits, timeout=0.1) as model,
    ):
        pieces = await collect(model)
    assert text_of(pieces) == "half"
    assert pieces[-1].finish is None  # type: ignore[union-attr]


async def test_a_web_page_is_no_endpoint(waits):
    page = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n\r\n<html></html>"
    )
    async with answering(page) as url, opened(url, waits) as model:
        with pytest.raises(ModelRefused, match="text/html"):
            await collect(model)


async def test_a_reply_that_is_not_read_to_its_end_frees_the_endpoint(waits):
    async with (
        ScriptedEndpoint([EndpointReply("word " * 1000, delay=0.01), "next"]) as endpoint,
        opened(endpoint.base_url, waits) as model,
    ):
        stream = model.stream(ask())
        await anext(stream)
        await stream.aclose()
        assert text_of(await collect(model)) == "next"


async def test_cancelling_a_call_that_waits_for_its_first_word_passes_through(waits):
    asked, loop = asyncio.Event(), asyncio.get_running_loop()

    def never(request: Any) -> EndpointReply:
        loop.call_soon_threadsafe(asked.set)
        return EndpointReply("never", wait=60)

    async with ScriptedEndpoint(never) as endpoint, opened(endpoint.base_url, waits) as model:
        task = asyncio.create_task(collect(model))
        await asked.wait()
        task.cancel()
        async with asyncio.timeout(5):
            with pytest.raises(asyncio.CancelledError):
                await task


async def test_cancelling_in_a_retrys_wait_passes_through(waits):
    async def forever(seconds: float) -> None:
        await asyncio.Event().wait()

    async with ScriptedEndpoint([failing(503, "down")]) as endpoint:
        told = asyncio.Event()
        retrying = Retrying(None, lambda reason, wait: told.set(), forever)
        model = EndpointModel(ModelSettings("m", "scripted", base_url=endpoint.base_url), retrying)
        task = asyncio.create_task(collect(model))
        await told.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await model.aclose()


async def test_many_calls_at_once_do_not_mix(waits):
    def echo(request: Any) -> EndpointReply:
        return EndpointReply(request.messages[-1]["content"] * 20, piece=3)

    async with ScriptedEndpoint(echo) as endpoint, opened(endpoint.base_url, waits) as model:
        replies = await asyncio.gather(*(collect(model, ask(f"[{i}]")) for i in range(20)))
    assert [text_of(reply) for reply in replies] == [f"[{i}]" * 20 for i in range(20)]


async def test_lone_surrogates_do_not_stop_a_request(waits):
    async with ScriptedEndpoint(["ok"]) as endpoint, opened(endpoint.base_url, waits) as model:
        assert text_of(await collect(model, ask("file \udcff é"))) == "ok"
        assert endpoint.requests[0].messages[-1]["content"] == "file ? é"


async def test_no_proxy_stands_between_us_and_loopback(waits, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with ScriptedEndpoint(["ok"]) as endpoint, opened(endpoint.base_url, waits) as model:
        assert text_of(await collect(model)) == "ok"


async def test_after_a_finish_reason_a_missing_end_costs_only_a_short_wait(waits, monkeypatch):
    monkeypatch.setattr("codeact_kernel.model.endpoint.USAGE_GRACE", 0.05)
    event = b'data: {"choices":[{"index":0,"delta":{"content":"done"},"finish_reason":"stop"}]}\n\n'
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + event
    async with answering(answer, hold=True) as url, opened(url, waits) as model:
        pieces = await collect(model)
    assert text_of(pieces) == "done"
    assert pieces[-1].finish == "stop"  # type: ignore[union-attr]


async def test_every_error_of_the_endpoint_is_one_of_ours(waits):
    statuses = (*range(400, 432), 451, *range(500, 512), 599)
    now = 0
    async with (
        ScriptedEndpoint(lambda request: failing(now, "no")) as endpoint,
        opened(endpoint.base_url, waits, {"attempts": 1}) as model,
    ):
        for status in statuses:
            now = status
            with pytest.raises(ModelError) as caught:
                await collect(model)
            assert caught.value.status == status

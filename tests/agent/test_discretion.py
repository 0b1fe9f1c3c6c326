"""Events and requests without secrets."""

from __future__ import annotations

from codeact_kernel.agent.discretion import DiscreetModel, Discretion, host_mask, named_keys
from codeact_kernel.events import Appended, Observation, Reply, ReplyDelta, Report, RunEnded
from codeact_kernel.masking import Mask
from codeact_kernel.messages import ImagePart, Message, ModelRequest, ToolCall, Usage
from codeact_kernel.testing import ScriptedModel

KEY = "sk-0123456789abcdef"
MASK = Mask({"A_KEY": KEY})
SHOWN = "[secret A_KEY]"


def told(*events, mask=MASK):
    discretion = Discretion(mask)
    return [said for event in events for said in discretion(event)]


def test_a_secret_in_the_pieces_of_a_reply_is_masked_and_what_was_kept_comes_before_the_reply():
    reply = Appended(1, Reply(1, f"use {KEY} is"))
    assert told(ReplyDelta(1, "use sk-01234"), ReplyDelta(1, "56789abcdef i"), ReplyDelta(1, "s"), reply) == [
        ReplyDelta(1, "use "),
        ReplyDelta(1, f"{SHOWN} i"),
        ReplyDelta(1, "s"),
        Appended(1, Reply(1, f"use {SHOWN} is")),
    ]


def test_every_text_of_an_event_is_looked_at():
    report = Report("run_code_result", f"a {KEY}", attrs=(("from", KEY),))
    assert told(Appended(1, Observation((report,)))) == [
        Appended(1, Observation((Report("run_code_result", f"a {SHOWN}", attrs=(("from", SHOWN),)),)))
    ]
    end = RunEnded("failed", None, Usage(), 1, 1.0, f"401: {KEY}")
    assert told(end)[0].message == f"401: {SHOWN}"


def test_without_secrets_everything_is_told_as_it_is():
    event = ReplyDelta(1, "s")
    assert told(event, mask=Mask())[0] is event


async def test_a_model_is_sent_none_in_any_message_or_call():
    inner = ScriptedModel(["ok"])
    model = DiscreetModel(inner, MASK)
    messages = (
        Message("system", f"key {KEY}"),
        Message("assistant", "", (ToolCall("1", "run_code", f'{{"code": "{KEY}"}}'),)),
        Message("user", KEY, images=(ImagePart(KEY, "image/png", b"\x89PNG", 1, 1),)),
    )
    async for _ in model.stream(ModelRequest(messages, extra={"user": KEY})):
        pass
    assert KEY not in repr(inner.requests)
    assert inner.requests[0].messages[2].images[0].data == b"\x89PNG"
    assert (model.name, model.window) == (inner.name, inner.window)


def test_keys_are_found_where_settings_name_them_and_where_the_environment_has_them():
    env = {"ONE": "1" * 10, "TWO": "2" * 10, "PROXY": "http://me:hunter22@proxy", "OTHER_TOKEN": "3" * 10}
    tables = {"models": {"a": {"key_env": "ONE"}, "b": "m"}, "search": {"key_env": "TWO", "api": "x"}, "n": 1}
    assert named_keys(tables, env) == {"ONE": "1" * 10, "TWO": "2" * 10}
    assert named_keys({"a": {"key_env": "NONE"}}, env) == {}
    assert host_mask(env).text("hunter22 3333333333") == "[secret PROXY] [secret OTHER_TOKEN]"

"""Marks of chat templates in texts: a printed one must not end a message."""

from __future__ import annotations

import pytest

from codeact_kernel.messages import Message, ModelRequest
from codeact_kernel.model.specials import harmless

MARKS = [
    *("<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|start_header_id|>", "<|fim_prefix|>"),
    *(
        "<\uff5cUser\uff5c>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "</s>",
        "<s>",
        "[INST]",
        "[/INST]",
        "<end_of_turn>",
    ),
]


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_is_none_any_more_and_looks_the_same(mark):
    (message,) = harmless(ModelRequest((Message("user", f"a {mark} b {mark}"),))).messages
    assert mark not in message.content
    assert message.content.replace("\u200b", "") == f"a {mark} b {mark}"


@pytest.mark.parametrize("text", ["x <| f |> g", "a <s b", "<string>", "[INSTALL]", "a | b |> c"])
def test_what_is_no_mark_stays(text):
    request = ModelRequest((Message("user", text),))
    assert harmless(request) == request

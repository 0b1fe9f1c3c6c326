"""Samples for training, and what trainers ask of them."""

from __future__ import annotations

import copy
import json

import pytest
from records import CALLS, played, written

from codeact_kernel import Run
from codeact_kernel.agent import samples
from codeact_kernel.agent.recorded.rules import fault_of_messages, fault_of_sharegpt
from codeact_kernel.testing import jumping

CALL = {"id": "c1", "type": "function", "function": {"name": "run_code", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "run_code", "description": "", "parameters": {}}}
CHAT = {
    "messages": [
        {"role": "system", "content": "You count."},
        {"role": "user", "content": "Count."},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "assistant", "content": "One."},
    ],
    "tools": [TOOL],
}
SHARED = {
    "conversations": [
        {"from": "system", "value": "You count."},
        {"from": "human", "value": "Count."},
        {"from": "function_call", "value": '{"name": "run_code", "arguments": {"code": "1"}}'},
        {"from": "observation", "value": "1"},
        {"from": "gpt", "value": "One."},
    ],
    "tools": '[{"name": "run_code"}]',
}


def changed(sample, change):
    sample = copy.deepcopy(sample)
    change(sample["messages"] if "messages" in sample else sample["conversations"], sample)
    return sample


def test_samples_as_trainers_document_them_are_right():
    assert fault_of_messages(CHAT) is None
    assert fault_of_messages(changed(CHAT, lambda m, s: m[4].update(weight=0))) is None
    assert fault_of_messages(changed(CHAT, lambda m, s: m.__delitem__(slice(3, None)))) is None
    assert fault_of_sharegpt(SHARED) is None


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda m, s: m.clear(), "it has no messages"),
        (lambda m, s: s.update(id=1), "it is no object of messages and tools"),
        (lambda m, s: m[0].update(role="function"), "there is no role 'function'"),
        (lambda m, s: m[1].update(weight=1), "a message of user has no weight"),
        (lambda m, s: m[1].update(content=""), "a message of user is empty"),
        (lambda m, s: m[4].update(content=None), "a message of assistant is empty"),
        (lambda m, s: m[2]["tool_calls"][0].pop("type"), "a call is none of a function"),
        (lambda m, s: m.pop(3), "a call is not answered before the next message"),
        (lambda m, s: m.pop(2), "a result answers no call of the reply before it"),
        (lambda m, s: m.insert(4, m[3]), "a result answers no call of the reply before it"),
        (lambda m, s: s.pop("tools"), "it calls what is none of its tools: run_code"),
        (lambda m, s: m.pop(4), "it does not end with a reply"),
    ],
)
def test_what_chat_completions_would_refuse_is_found(change, fault):
    assert fault_of_messages(changed(CHAT, change)) == fault


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda t, s: s.update(id=1), "it is no object of conversations and tools"),
        (lambda t, s: t.clear(), "it does not end with a reply"),
        (lambda t, s: t.pop(4), "it does not end with a reply"),
        (lambda t, s: t[4].update(value=""), "a turn is empty"),
        (lambda t, s: t[4].update(**{"from": "tool"}), "questions and replies do not take turns"),
        (lambda t, s: t.insert(1, t.pop(2)), "questions and replies do not take turns"),
        (lambda t, s: t[2].update(value='{"name": "x", "arguments": "{}"}'), "a call is none of a function"),
        (lambda t, s: s.pop("tools"), "it makes calls and says nothing of its tools"),
    ],
)
def test_what_llama_factory_would_pass_over_is_found(change, fault):
    assert fault_of_sharegpt(changed(SHARED, change)) == fault


async def recorded(play, folder, protocol):
    replies = [*CALLS[:1], "Wait.", CALLS[1]] if protocol == "tools" else None
    return Run.load(written(folder, await played(play, protocol, replies)))


@pytest.mark.parametrize("protocol", ["tags", "tools"])
@jumping
async def test_real_conversations_are_written_as_each_format_has_them(play, tmp_path, protocol):
    run, faults = await recorded(play, tmp_path / "run", protocol), []
    (chat,) = samples([run], left_out=faults.append)
    (shared,) = samples([run], sharegpt=True, left_out=faults.append)
    assert faults == []
    chat, shared = json.loads(chat.line), json.loads(shared.line)
    assert (fault_of_messages(chat), fault_of_sharegpt(shared)) == (None, None)
    assert ("tools" in chat, "tools" in shared) == (protocol == "tools", protocol == "tools")
    if protocol == "tools":
        assert {"run_code", "cancel"} <= {tool["function"]["name"] for tool in chat["tools"]}
        calls = json.loads(shared["conversations"][2]["value"])  # both in one turn, and their results in one
        assert [call["arguments"]["id"] for call in calls] == ["a", "b"]
        assert [turn["from"] for turn in shared["conversations"][3:]][::2] == ["observation"]

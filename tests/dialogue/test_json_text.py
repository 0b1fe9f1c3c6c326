"""The third codec: calls as JSON in the text."""

import json

import pytest
from dialogue_helpers import blocks_of, faults_of, parts_of, prose_of, read
from hypothesis import given, settings
from hypothesis import strategies as st

from codeact_kernel.blocks import AgentBlock, Cancel, CodeBlock
from codeact_kernel.dialogue.jsontext import JsonCodec, JsonReader
from codeact_kernel.events import Observation, Report, Task

CALL = json.dumps({"name": "run_code", "arguments": {"code": "print('}{')\n", "id": "a"}})
BLOCK = CodeBlock("print('}{')\n", "a")


def read_json(reply, finish="stop", size=None, in_use=()):
    return read(reply, finish, size, reader=JsonReader(in_use))


@pytest.mark.parametrize("size", [None, 1, 3, 11])
@pytest.mark.parametrize(
    ("reply", "blocks"),
    [
        (CALL, [BLOCK]),
        (f"Let me look.\n{CALL}\nSo.", [BLOCK]),
        (f"```json\n{CALL}\n```", [BLOCK]),
        (f"<tool_call>\n{CALL}\n</tool_call>", [BLOCK]),
        (json.dumps(json.loads(CALL), indent=2), [BLOCK]),
        (f'{CALL}\n{{"name": "cancel", "arguments": {{"id": "dl"}}}}', [BLOCK, Cancel("dl")]),
        (f'[{CALL}, {{"name": "run_agent", "parameters": {{"task": "Go."}}}}]', [BLOCK, AgentBlock("Go.")]),
        (
            f'[\n{CALL},\n{{"name": "run_code", "arguments": "{{\\"code\\": \\"1\\"}}"}}\n]',
            [BLOCK, CodeBlock("1")],
        ),
        (f'{{"type": "function", "function": {CALL}}}', [BLOCK]),
        ('{"name": "run_code", "arguments": {"code": "a = 1\nb = 2"}}', [CodeBlock("a = 1\nb = 2")]),
    ],
)
def test_calls_are_found_in_all_their_spellings(reply, blocks, size):
    items, _ = read_json(reply, size=size)
    assert blocks_of(items) == blocks
    assert not faults_of(items)


@pytest.mark.parametrize("size", [None, 1, 3])
@pytest.mark.parametrize(
    "reply",
    [
        '{"a": 1}',
        '[{"title": "x", "name": "run"}]',
        '{"name": "Bob", "age": 3}',
        "{ x | x > 1 }",
        '{"name": ',
        'Write {"name": "run_code", "arguments": {"code": "1"}} to run code.',
        "{'name': 'run'}",
        '{"name": 1, "arguments": {}}',
    ],
)
def test_other_objects_are_prose(reply, size):
    items, reader = read_json(reply, size=size)
    assert prose_of(items) == reply.strip()
    assert not blocks_of(items)
    assert not faults_of(items)
    assert reader.text == reply.strip()


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        ('{"name": "run_code", "arguments": {"code": \'1\'}}', "call", "cannot be read"),
        ('{"name": "run_code"}', "call", 'needs "code"'),
        ('{"name": "python", "arguments": {"code": "1"}}', "call", 'no function "python"'),
        ('{"name": "run_code", "arguments": {"code": "print(1)}}', "call", "last brace is missing"),
        ('{"name": "run_code", "arguments": {"code": "1", "tmeout": 1}}', "attribute", "timeout"),
    ],
)
def test_a_bad_call_is_told_and_no_answer(reply, kind, words):
    items, _ = read_json(reply)
    (fault,) = items
    assert fault.kind == kind
    assert words in fault.message


def test_a_cut_call_goes_on_at_the_last_character():
    reader = JsonReader()
    reader.feed(CALL[:40])
    reader.finish("length")
    assert reader.cut
    reader.resume()
    assert reader.feed(CALL[40:]) == [BLOCK]
    assert not reader.finish("stop")


def test_a_cut_call_that_never_goes_on_is_told():
    items, _ = read_json(CALL[:40], "length")
    assert [fault.kind for fault in faults_of(items)] == ["cut"]


def test_what_is_invented_behind_a_call_is_dropped():
    items, reader = read_json(f"{CALL}\n<run_code_result>\n42\n</run_code_result>")
    assert parts_of(items) == [BLOCK]
    assert faults_of(items)[0].kind == "invented"
    assert reader.text == CALL


FRAGMENTS = st.sampled_from(
    [
        CALL,
        '{"name"',
        '{"name": "run_code"',
        "{",
        "}",
        '"',
        "\\",
        "\n",
        "\n",
        "[",
        ",",
        ", ",
        " ",
        "x",
        "<note>",
        "```json\n",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAGMENTS, max_size=20).map("".join), st.sampled_from(["stop", "length"]), st.integers(1, 9))
def test_pieces_do_not_matter_here_either(reply, finish, size):
    at_once, reader = read_json(reply, finish)
    in_pieces, other = read_json(reply, finish, size)
    assert in_pieces == at_once
    assert (other.text, other.cut) == (reader.text, reader.cut)


def test_results_come_as_messages_of_the_users():
    codec = JsonCodec(examples=True)
    messages = codec.messages(None, [Task("Do."), Observation((Report("run_code_result", "1", "b1"),))])
    assert messages[-1].role == "user"
    assert json.loads(messages[1].content)["name"] == "run_code"
    assert codec.tools == ()
